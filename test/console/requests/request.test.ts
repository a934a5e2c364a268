import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Person, startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { approve, registerPlatform, requested } from "../../support/platform_world.ts";
import { browserOf, formIn } from "../support/console.ts";
import { viewerOf } from "../support/visits.ts";

const EURO = (max_amount: number) => ({ type: "max_amount", max_amount, currency: "EUR" });

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

/** Creates a request in a person's account, and opens its page. */
async function waiting(fields: Record<string, unknown> = {}) {
  const made = await requested(api, { requested_scope: ["data:read", "payments:send"], ...fields });
  const browser = browserOf(api, made.person.client);
  const path = `/console/requests/${made.requestId}`;
  return { ...made, path, page: await browser.open(path), browser };
}

async function certificateOf({ client }: Person, requestId: string) {
  const { body } = await client.get(`/v1/service/delegations/requests/${requestId}`);
  return (await client.get(`/v1/service/delegations/${body.cert_id}`)).body as {
    approved_scope: string[];
    expires_at: string | null;
    issued_at: string;
    cert_json: { constraints: unknown[] };
  };
}

/** Creates a request for a custom scope of a platform that describes this scope, and opens its page. */
async function described(words: { label: string; description: string; sensitive?: boolean }) {
  const person = await api.person();
  const scope = "custom:orders:refund";
  const platform = await registerPlatform(person, { scope_descriptions: { [scope]: words } });
  const made = await requested(api, { requested_scope: [scope, "data:read"] }, { person, platform });
  const browser = browserOf(api, person.client);
  const page = await browser.open(`/console/requests/${made.requestId}`);
  return { ...made, scope, page, browser };
}

describe("the page about a pending request", () => {
  test("shows a platform's words for its scope, as its words, and leaves a sensitive scope unselected", async () => {
    const words = { label: "Refund an order", description: "Pays a customer back", sensitive: true };
    const { page, scope, person, platform, requestId, browser } = await described(words);
    expect(page.words).toContain("Shop says: Pays a customer back");
    expect(page.text).toContain("<q><bdi>Pays a customer back</bdi></q>");
    const boxes = [...page.text.matchAll(/<input[^>]*name="approved_scope"[^>]*>/g)].map(([box]) => box);
    expect(boxes.map((box) => [/value="([^"]+)"/.exec(box)?.[1], box.includes(" checked")])).toEqual([
      ["data:read", true],
      [scope, false],
    ]);
    const changed = { scope_descriptions: { [scope]: { label: "See an order", description: "Looks" } } };
    await person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, { body: changed });
    const again = await browser.open(`/console/requests/${requestId}`);
    expect(again.words).toContain("Refund an order");
    expect(again.words).not.toContain("See an order");
    for (const list of ["/console/requests", "/console"]) {
      expect((await browser.open(list)).words).toContain(`${scope} Refund an order`);
    }
  });

  test("keeps a label inside its quotes in the sentence about the risk", async () => {
    const { page } = await described({ label: "Look” only <b>", description: "https://evil.example" });
    expect(page.words).toContain("do what Shop calls “\u2068Look' only <b>\u2069”");
    expect(page.text).not.toContain("<b>");
    expect(page.text).not.toContain('href="https://evil');
  });

  test("shows the requester, the scopes and the expiry in plain words", async () => {
    const { page, person, agentId } = await waiting({
      requested_scope: ["data:*", "payments:send", "custom:orders:refund"],
      expires_in: 86_400,
      constraints: [EURO(500), { type: "vendor_rule", params: { a: 1 } }],
    });
    const { words } = page;
    expect(words).toContain("shop-bot asks to act for you");
    expect(words).toContain(`Agent shop-bot ${agentId}`);
    expect(words).toMatch(/Key fingerprint sha256:[0-9a-f]{64} Its key is kept in the key vault here\./);
    expect(words).toContain(`${person.email} asked, signed in here or by the API`);
    expect(words).toContain("Asked until 1 day after the approval");
    expect(words).toContain("Read and share data data:* that is data:read, data:share");
    expect(words).toContain("orders:refund, as Shop defines it custom:orders:refund");
    expect(words).toContain("the amount is at most 500 EUR");
    expect(words).toContain('the rule vendor_rule {"a":1} holds, which this service does not know');
    expect(words).not.toContain("sensitive");
  });

  test("names the SDKs that would refuse the certificate", async () => {
    const amount = { type: "max_amount", max_amount: 0.00001, currency: "A&B" };
    const odd = await waiting({ requested_scope: ["data:read"], constraints: [amount, amount] });
    for (const sdk of ["Go", "Python"]) {
      expect(odd.page.words.split(`the published ${sdk} SDK will refuse`)).toHaveLength(2);
    }
    const plain = await waiting({ requested_scope: ["data:read"], constraints: [EURO(500)] });
    expect(plain.page.words).not.toContain("SDK will refuse");
  });

  test("shows the risk of many long scopes of which one is sensitive", async () => {
    const person = await api.person();
    const long = Array.from({ length: 60 }, (_, n) => `custom:${"a".repeat(200)}:${"b".repeat(40)}${n}`);
    const platform = await registerPlatform(person, { default_allowed_scopes: ["data:delete", ...long] });
    const { requestId } = await requested(api, {}, { person, platform });
    const { words } = await browserOf(api, person.client).open(`/console/requests/${requestId}`);
    expect(words).toContain("and 57 more as often as it likes");
    expect(words).toContain("Approve 60 of 61");
  });

  test("shows the whole request, with sensitive scopes, to people who do not approve", async () => {
    const owner = await api.person({ organization_name: "Bank" });
    const auditor = await addMember(api, owner.accountId, "auditor");
    const fields = { default_allowed_scopes: ["data:read", "data:delete"] };
    const platform = await registerPlatform(owner, fields, "/v1/service/platforms");
    const { requestId } = await requested(api, {}, { person: owner, platform });
    const path = `/console/for/${owner.accountId}/requests/${requestId}`;
    const { words } = await browserOf(api, auditor.client).open(path);
    expect(words).toMatch(/What was asked for Read data data:read Delete data data:delete/);
    expect(words).toContain("Asked until: until somebody revokes it.");
  });

  test("marks only sensitive scopes as sensitive", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person, { default_allowed_scopes: ["data:read", "data:delete"] });
    const { requestId } = await requested(api, {}, { person, platform });
    const { text } = await browserOf(api, person.client).open(`/console/requests/${requestId}`);
    const box = (scope: string) =>
      new RegExp(`value="${scope}"[^>]*>\\s*<label.*?</label>`, "s").exec(text)?.[0];
    expect(box("data:delete")).toMatch(/Delete data.*badge warn.*sensitive/s);
    expect(box("data:read")).not.toContain("sensitive");
  });

  test("names the object, the cluster and the cluster user if the request comes from YAML", async () => {
    const { path, page, person, browser, requestId } = await waiting();
    expect(page.words).not.toContain("Kubernetes user");
    const row = { external_id: `c1.${randomUUID()}`, object_name: "help", requested_by: null };
    await api.db("delegation_requests").where({ request_id: requestId }).update(row);
    await api.db("platforms").where({ account_id: person.accountId }).update({ object_namespace: "shop" });
    const unknown = await browser.open(path);
    expect(unknown.words).toContain("By YAML: the Delegation shop/help in the cluster c1");
    expect(unknown.words).toContain("Kubernetes user not known");
    expect(unknown.words).toContain("With kubectl only scopes can be held back.");
    await api
      .db("delegation_requests")
      .where({ request_id: requestId })
      .update({ requested_user: "ed@cluster" });
    expect((await browser.open(path)).words).toContain("Kubernetes user ed@cluster");
  });

  test("lets a person approve fewer scopes, an earlier expiry, and tighter or additional limits", async () => {
    const { page, person, requestId, platform } = await waiting({ constraints: [EURO(500)] });
    const done = await page.send("approve", {
      approved_scope: ["payments:send"],
      end_number: "2",
      end_unit: "3600",
      amount_max: "99,50",
      currency: "EUR",
      rate_count: "5",
      rate_window: "86400",
      window_start: "09:00",
      window_end: "17:00",
      zone: "Europe/Berlin",
      latitude: "52.52",
      longitude: "-13.4",
      radius: "2.5",
      speed: "13.9",
      resource_id: "till 1",
      path_prefix: "/orders",
    });
    expect(done.words).toContain("Approved.");
    const certificate = await certificateOf(person, requestId);
    expect(certificate.approved_scope).toEqual(["payments:send"]);
    expect(Date.parse(certificate.expires_at ?? "") - Date.parse(certificate.issued_at)).toBe(7_202_000);
    expect(certificate.cert_json.constraints).toEqual([
      EURO(500),
      EURO(99.5),
      { type: "max_rate", count: 5, window_s: 86_400 },
      { type: "time_window", start: "09:00", end: "17:00", tz: "Europe/Berlin" },
      { type: "geo_circle", lat: 52.52, lon: -13.4, radius_m: 2_500 },
      { type: "max_speed_mps", max_mps: 13.9 },
      { type: "resource_path", resource_id: "till 1", path_prefix: "/orders" },
    ]);
    expect(done.words).toContain("shop-bot was given authority");
    expect(done.words).toMatch(
      /What the certificate says.*Send payments payments:send.*Held back.*Read data data:read/,
    );
    expect(done.words).toContain("It ends earlier than was asked for.");
    expect(done.words).toMatch(
      /Added by the approver, only if all of this is so: the amount is at most 99.5 EUR/,
    );
    expect(done.text).toMatch(/href="\/console\/delegations\/cert-[0-9a-f-]+"/);
    expect(done.words).toContain(`by ${person.email}`);
    expect(done.text).not.toContain('value="approve"');
    expect(platform.connectionId).not.toBe("");
  });

  test.each([
    ["the time of day of an end within two days", 47 * 3600, /\d{2}:\d{2} UTC$/],
    ["only the day of a later end", 49 * 3600, /\d{4}$/],
  ])("shows %s", async (_, expiresIn, form) => {
    const { page } = await waiting({ expires_in: expiresIn });
    expect(/Ends <time[^>]*>([^<]+)/.exec(page.text)?.[1]).toMatch(form);
  });

  test("says what the application must send for the limits, and which permission has no amount", async () => {
    const { page } = await waiting({ constraints: [EURO(500)] });
    expect(page.words).toContain(
      "For the limits, the application must send the amount of each use. Without this, the use is denied.",
    );
    expect(page.words).toContain("“Read data” usually has no amount, so the agent may be unable to use it.");
    const payments = await page.send("approve", { approved_scope: ["payments:send"], show: "preview" });
    expect(payments.words).toContain("the application must send the amount");
    expect(payments.words).not.toContain("usually has no amount");
    const { page: custom } = await waiting({
      requested_scope: ["custom:orders:refund"],
      constraints: [EURO(500)],
    });
    expect(custom.words).toContain("the application must send the amount");
    expect(custom.words).not.toContain("usually has no amount");
    const { page: unlimited } = await waiting({ constraints: [] });
    expect(unlimited.words).not.toContain("the application must send");
  });

  test("lends permissions without an amount separately, unless the person unticks the box", async () => {
    const { page, person, requestId, browser } = await waiting();
    const typed = { amount_max: "250", currency: "EUR" };
    const shown = await page.send("approve", { ...typed, show: "preview" });
    expect(shown.words).toContain("“Read data” is lent separately, without the limit on the amount.");
    expect(shown.words).not.toContain("usually has no amount");
    expect(shown.words).toContain("Approve 2 of 2");
    const untied = await shown.send("approve", { separate: [], show: "preview" });
    expect(untied.words).toContain("“Read data” usually has no amount");
    expect(untied.words).not.toContain("lent separately, without");
    const rated = await shown.send("approve", { rate_count: "3", show: "preview" });
    expect(rated.words).toContain("each delegation would count its own uses");
    const done = await shown.send("approve");
    expect(done.words).toContain("Lent separately by the same approval shop-bot of the platform");
    expect(done.words).not.toContain("Held back Read data");
    const { body: request } = await person.client.get(`/v1/service/delegations/requests/${requestId}`);
    expect(await certificateOf(person, requestId)).toMatchObject({
      approved_scope: ["payments:send"],
      cert_json: { constraints: [EURO(250)] },
    });
    const other = await browser.open(`/console/delegations/${request.linked_cert_id}`);
    expect(other.words).toContain("Linked delegation See the other part of the same approval");
    expect(other.text).toContain(`/console/delegations/${request.cert_id}"`);
    expect(other.words).not.toContain("the amount is at most");
    const revoking = await browser.open(`/console/delegations/${request.linked_cert_id}/revoke`);
    expect(revoking.words).toContain("The linked delegation from the same approval stays active");
    const activity = await browser.open("/console/activity");
    expect(activity.words).toContain("request shop-bot linked delegation shop-bot");
  });

  test.each([
    ["all permissions may have an amount", { requested_scope: ["payments:send", "custom:orders:refund"] }],
    ["no permission has one", { requested_scope: ["data:read"] }],
    ["the request limits the amount", { constraints: [EURO(500)] }],
    ["the request limits how often", { constraints: [{ type: "max_rate", count: 5, window_s: 60 }] }],
  ])("offers no separate delegation if %s", async (_, fields) => {
    const { page } = await waiting(fields);
    expect(page.text).not.toContain('name="separate"');
  });

  test("lets a person approve the request unchanged", async () => {
    const { page, person, requestId } = await waiting({ constraints: [EURO(500)], expires_in: 60 });
    const done = await page.send("approve");
    expect(done.words).toContain("Nothing: all that was asked for was approved.");
    expect((await certificateOf(person, requestId)).cert_json.constraints).toEqual([EURO(500)]);
  });

  test("previews the certificate, and keeps the entered values", async () => {
    const { page, requestId } = await waiting();
    const typed = { approved_scope: ["payments:send"], amount_max: "20", currency: "EUR", show: "preview" };
    const shown = await page.send("approve", typed);
    expect(shown.status).toBe(200);
    const said = /<p id="preview-end">.*?<p class="actions unscripted">/s.exec(shown.text)?.[0] ?? "";
    expect(said).toContain(
      "“<bdi>shop-bot</bdi>” could send payments, within the limits, as often as it likes",
    );
    expect(said).not.toContain("read data");
    expect(said).toContain("the amount is at most 20 EUR");
    expect(said).toMatch(/Ends <time datetime="[^"]+" data-day>/);
    expect(formIn(shown, "approve").fields).toMatchObject({
      amount_max: "20",
      currency: "EUR",
      approved_scope: "payments:send",
    });
    expect(shown.text).toMatch(/<details open>\s*<summary>Amount/);
    expect(await api.db("certificates").where({ request_id: requestId })).toEqual([]);
    expect((await shown.send("approve")).words).toMatch(/What the certificate says.*at most 20 EUR/);
  });

  test.each([
    [{ approved_scope: "" }, "approved_scope", "Tick at least one thing"],
    [{ amount_max: "much", currency: "EUR" }, "amount_max", "Write a number"],
    [
      { amount_max: "1,000", currency: "EUR" },
      "amount_max",
      "This can be read as 1000 or as 1. Write it as one",
    ],
    [{ amount_max: "1.000", currency: "EUR" }, "amount_max", "This can be read as 1000 or as 1."],
    [{ amount_max: "1,000.50", currency: "EUR" }, "amount_max", "Write a number without marks"],
    [
      { latitude: "1.125", longitude: "0", radius: "2.125" },
      "radius",
      "This can be read as 2125 or as 2.1250.",
    ],
    [{ speed: "999999999999999999999" }, "speed", "Write a smaller number"],
    [{ amount_max: "5" }, "currency", "Is missing"],
    [{ amount_max: "501", currency: "EUR" }, "amount_max", "allows more than the requested constraint"],
    [{ rate_count: "1.5" }, "rate_count", "Write a whole number"],
    [{ rate_count: "0" }, "rate_count", "Write a whole number above 0"],
    [{ window_start: "09:00", window_end: "10:00", zone: "Mars" }, "zone", "as the IANA database"],
    [{ latitude: "91", longitude: "0", radius: "1" }, "latitude", "not a place on earth"],
    [{ latitude: "1", longitude: "0", radius: "0.0001" }, "radius", "Write 0.001 or more"],
    [{ amount_max: "-5", currency: "EUR" }, "amount_max", "not below 0"],
    [{ end_number: "99999", end_unit: "86400" }, "end_number", "Write at most 24,855 days"],
    [{ resource_id: "a", path_prefix: "b" }, "resource_id", "not a path"],
    [{ end_number: "2", end_unit: "86400" }, "end_number", "later than requested"],
    [{ end_number: "0" }, "end_number", "Write a whole number"],
  ])("shows an error at the invalid field: %j", async (values, field, said) => {
    const { page, requestId } = await waiting({ constraints: [EURO(500)], expires_in: 86_400 });
    const refused = await page.send("approve", values);
    expect(refused.status).toBe(400);
    const fault = new RegExp(`id="approve-${field}-fault">([^<]*)<`).exec(refused.text)?.[1];
    expect(fault).toContain(said);
    expect((await api.db("delegation_requests").where({ request_id: requestId }).first())?.status).toBe(
      "pending",
    );
    const preview = await page.send("approve", { ...values, show: "preview" });
    expect(preview.words).toContain("Nothing can be signed like this yet:");
    expect(preview.text).not.toContain('<div class="grant">');
  });

  test("lets a person deny the request with a reason, and then shows the reason", async () => {
    const { page, browser, path } = await waiting();
    const list = await page.send("deny", { reason: "not now" });
    expect([list.path, list.words.includes("Denied.")]).toEqual(["/console/requests?notice=denied", true]);
    const shown = await browser.open(path);
    expect(shown.words).toMatch(/shop-bot was denied.*Reason not now/);
    expect(shown.words).toContain("What was asked for");
    expect((await page.send("approve")).status).toBe(409);
  });

  test("shows that the request has expired or was withdrawn", async () => {
    const { browser, path, requestId } = await waiting();
    await api.db("delegation_requests").where({ request_id: requestId }).update({ status: "withdrawn" });
    expect((await browser.open(path)).words).toContain("The request of shop-bot was withdrawn");
    const now = api.clock.now();
    await api
      .db("delegation_requests")
      .where({ request_id: requestId })
      .update({ status: "pending", expires_at: now });
    const shown = await browser.open(path);
    expect(shown.words).toContain("Nobody decided about shop-bot in time");
    expect(shown.text).not.toContain('value="approve"');
  });

  test("names the cluster where the request was decided", async () => {
    const { browser, path, person, requestId } = await waiting();
    await approve(person, requestId, ["data:read"]);
    const where = { request_id: requestId };
    const decided = { decided_by: null, decided_cluster: "c1", decided_user: "ann@cluster" };
    await api.db("delegation_requests").where(where).update(decided);
    expect((await browser.open(path)).words).toContain("by ann@cluster in the cluster c1");
  });

  test("does not exist for other accounts", async () => {
    const { path } = await waiting();
    expect((await (await viewerOf(api, "complete")).open(path)).status).toBe(404);
  });
});

describe("a request in an organization", () => {
  async function organization(four_eyes: boolean) {
    const person = await api.person({ organization_name: "Bank" });
    const platform = await registerPlatform(person, {}, "/v1/service/platforms");
    await api.db("accounts").where({ account_id: person.accountId }).update({ four_eyes });
    const { requestId } = await requested(api, {}, { person, platform });
    const path = `/console/for/${person.accountId}/requests/${requestId}`;
    const as = async (role: "approver" | "developer" | "auditor") =>
      browserOf(api, (await addMember(api, person.accountId, role)).client).open(path);
    return { person, requestId, path, as };
  }

  test.each(["developer", "auditor"] as const)(
    "can be read, but not decided, by the role %s",
    async (role) => {
      const { as } = await organization(false);
      const shown = await as(role);
      expect(shown.words).toContain("Your role lets you see requests.");
      expect(shown.words).toContain("Send payments");
      expect(shown.text).not.toMatch(/name="form" value="(approve|deny)"/);
    },
  );

  test("can be approved by a second person but not by its requester if two people are required", async () => {
    const { person, path, as } = await organization(true);
    const own = await browserOf(api, person.client).open(path);
    expect(own.words).toContain(
      "Your organization requires two people: the person who asked may not approve.",
    );
    expect(own.text).not.toContain('name="form" value="approve"');
    expect(own.text).toContain('name="form" value="deny"');
    const other = await as("approver");
    expect((await other.send("approve")).words).toContain("Approved.");
  });

  test("cannot be approved if the requester is unknown", async () => {
    const { requestId, as } = await organization(true);
    await api.db("delegation_requests").where({ request_id: requestId }).update({ requested_by: null });
    expect((await as("approver")).words).toContain("it is not known here who asked");
  });

  test("can be approved by its requester if one person is enough", async () => {
    const { person, path } = await organization(false);
    const shown = await browserOf(api, person.client).open(path);
    expect((await shown.send("approve")).words).toContain("Approved.");
  });
});

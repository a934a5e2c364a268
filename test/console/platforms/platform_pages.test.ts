import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { registerPlatform } from "../../support/platform_world.ts";
import { browserOf, formIn } from "../support/console.ts";
import { platformViewer } from "./platform_viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

describe("a platform", () => {
  test("can be changed and narrowed, but not widened", async () => {
    const seen = await platformViewer(api);
    const path = `/console/platforms/${seen.ids.platform}`;
    const opened = await seen.open(`${path}/change`);
    const changed = await opened.send("change", {
      name: "Store",
      description: "a\r\nb",
      default_allowed_scopes: ["data:read"],
      explanation_values: "hashed",
    });
    expect(changed.path).toBe(`${path}?notice=changed`);
    const read = async () => (await seen.client.get(`/v1/service/platforms/${seen.ids.platform}`)).body;
    expect(await read()).toMatchObject({
      name: "Store",
      description: "a\nb",
      default_allowed_scopes: ["data:read"],
      explanation_values: "hashed",
    });
    expect((await seen.open(path)).words).toContain("Hashed with a key");
    const wider = await (await seen.open(`${path}/change`)).send("change", {
      default_allowed_scopes: ["data:read", "data:share"],
    });
    expect(wider.text).toMatch(/id="change-default_allowed_scopes-fault">The ceiling may only shrink/);
    const none = await opened.send("change", { default_allowed_scopes: [] });
    expect(none.text).toContain("Choose 1 to 64 scopes.");
    expect(await read()).toMatchObject({ default_allowed_scopes: ["data:read"] });
  });

  test("gets words for its custom scopes, which its pages show", async () => {
    const person = await api.person();
    const { platformId } = await registerPlatform(person);
    const path = `/console/platforms/${platformId}`;
    const browser = browserOf(api, person.client);
    const opened = await browser.open(`${path}/change`);
    const missing = await opened.send("change", { label_0: "Refund an order" });
    expect(missing.text).toContain('id="change-words_0-fault"');
    const copied = { label_0: "Read data", words_0: "Reads" };
    expect((await opened.send("change", copied)).words).toContain("must not look like a scope");
    const words = { label_0: "Refund an order", words_0: "Pays a customer back", sensitive_0: "on" };
    const changed = await opened.send("change", words);
    expect(changed.path).toBe(`${path}?notice=changed`);
    expect(changed.words).toContain("custom:orders:refund Refund an order");
    const read = async () =>
      (await person.client.get(`/v1/service/platforms/${platformId}`)).body.scope_descriptions;
    const [label, description] = ["Refund an order", "Pays a customer back"];
    expect(await read()).toEqual({ "custom:orders:refund": { label, description, sensitive: true } });
    const again = await browser.open(`${path}/change`);
    expect(formIn(again, "change").fields).toMatchObject(words);
    await again.send("change", { label_0: "", words_0: "" });
    expect(await read()).toEqual({});
  });

  test("can be published under a verified domain, and made a draft again", async () => {
    const seen = await platformViewer(api);
    const path = `/console/platforms/${seen.ids.platform}`;
    const opened = await seen.open(path);
    const { domain } = formIn(opened, "publish").fields;
    expect(domain).toMatch(/^shop-/);
    const published = await opened.send("publish");
    expect(published.words).toContain(`✓ published Published under ${domain}.`);
    expect((await api.client().get(`/v1/registry/platforms/${seen.ids.platform}`)).status).toBe(200);
    const draft = await published.send("unpublish");
    expect(draft.words).toContain("– draft");
    expect((await api.client().get(`/v1/registry/platforms/${seen.ids.platform}`)).status).toBe(404);
    await api
      .db("organization_domains")
      .where({ organization_id: seen.ids.account ?? "" })
      .delete();
    const late = await opened.send("publish");
    expect(late.status).toBe(403);
    expect((await seen.open(path)).text).toContain(`href="/console/organization/domains"`);
  });

  test("can only be changed through the object that declares it, as its pages say", async () => {
    const seen = await platformViewer(api);
    const path = `/console/platforms/${seen.ids.declared}`;
    for (const suffix of ["", "/change", "/accepted"]) {
      const shown = await seen.open(`${path}${suffix}`);
      expect(shown.words).toMatch(/Declared in Kubernetes: Platform default\/[\w-]+ in cluster c1\./);
      expect(shown.text).not.toMatch(/href="[^"]*\/change"|value="(change|accept)"/);
    }
    const connection = await seen.open(`/console/connections/${seen.ids.declaredConnection}`);
    expect(connection.words).toContain("Declared in Kubernetes");
    const rotate = await seen.open(`/console/connections/${seen.ids.declaredConnection}/rotate-key`);
    expect(rotate.words).toContain("the operator puts the new key into its Secret");
    const remove = await seen.open(`/console/connections/${seen.ids.declaredConnection}/remove`);
    expect(remove.words).toContain("Delete the object there instead");
    const own = await seen.open(`/console/platforms/${seen.ids.platform}`);
    expect(own.words).not.toContain("Declared in Kubernetes");
  });
});

describe("an accepted identity", () => {
  const scene = async () => {
    const seen = await platformViewer(api);
    const path = `/console/platforms/${seen.ids.platform}/accepted`;
    const list = async () =>
      (await seen.client.get(`/v1/service/platforms/${seen.ids.platform}/accepted-principals`)).body
        .items as Record<string, unknown>[];
    return { seen, path, list };
  };

  test("stays valid until the end of the selected day, can be accepted again, and can be ended", async () => {
    const { seen, path, list } = await scene();
    const { humanId } = await api.person();
    const opened = await seen.open(path);
    const values = { human_id: ` ${humanId.toUpperCase()} `, scopes: ["data:read", "custom:a:b"] };
    const accepted = await opened.send("accept", { ...values, last_day: "2098-12-31" });
    expect(accepted.words).toContain("Accepted.");
    const row = async () => (await list()).find(({ human_id }) => human_id === humanId);
    expect(await row()).toMatchObject({
      scopes: ["data:read", "custom:a:b"],
      accepted_until: "2099-01-01T00:00:00.000Z",
    });
    await (await seen.open(path)).send("accept", { ...values, scopes: ["data:read"] });
    expect(await row()).toMatchObject({ scopes: ["data:read"], accepted_until: null });
    const ended = await (await seen.open(path)).send("end", { human_id: humanId });
    expect(ended.words).toContain("The identity is no longer accepted.");
    expect(await row()).toBeUndefined();
  });

  test("cannot be added with an invalid value, and the page shows an error at the field", async () => {
    const { seen, path, list } = await scene();
    const opened = await seen.open(path);
    const right = { human_id: (await api.person()).humanId, scopes: ["data:read"] };
    const fault = async (field: string, values: object) => {
      const shown = await opened.send("accept", { ...right, ...values });
      expect([field, shown.status, shown.text.includes(`id="accept-${field}-fault"`)]).toEqual([
        field,
        400,
        true,
      ]);
    };
    await fault("human_id", { human_id: "ada" });
    await fault("human_id", { human_id: "0".repeat(32) });
    await fault("human_id", { human_id: seen.person.humanId });
    await fault("scopes", { scopes: "" });
    await fault("scopes", { scopes: "data:reed" });
    for (const [day, said] of [
      ["2001-01-01", "This day is over"],
      ["soon", "There is no such day"],
      ["2098-02-30", "There is no such day"],
      ["12026-01-01", "There is no such day"],
      ["9999-12-31", "Give a day before 9999-12-31"],
    ] as const) {
      await fault("last_day", { last_day: day });
      const shown = await opened.send("accept", { ...right, last_day: day });
      expect(/id="accept-last_day-fault">([^<]*)</.exec(shown.text)?.[1]).toContain(said);
    }
    expect(await list()).toHaveLength(1);
  });
});

test("an object may adopt a platform after confirmation, but not after the confirmation was withdrawn", async () => {
  const seen = await platformViewer(api);
  const path = `/console/platforms/${seen.ids.platform}/adoption`;
  const opened = await seen.open(path);
  expect(opened.words).toContain(`adopt: ${seen.ids.platform}`);
  expect(opened.words).toMatch(/Namespace default Name of the object shop/);
  const withdrawn = await opened.send("withdraw");
  expect(withdrawn.words).toContain("No object may take it over at the moment.");
  const place = { cluster: "c2", namespace: "team-b", name: "store" };
  const wrong = await withdrawn.send("confirm", { ...place, namespace: "Team B" });
  expect(wrong.text).toContain('id="confirm-namespace-fault"');
  const confirmed = await withdrawn.send("confirm", place);
  expect(confirmed.words).toMatch(/Cluster c2 Namespace team-b Name of the object store/);
  const { body } = await seen.client.get(`/v1/service/platforms/${seen.ids.platform}/adoption`);
  expect(body.adoption).toMatchObject(place);
});

test("the page shows a person's own root identity, but not while the person acts for an organization", async () => {
  const seen = await platformViewer(api);
  const suffix = `/platforms/${seen.ids.platform}/accepted`;
  expect((await seen.open(`/console${suffix}`)).words).toContain(seen.person.humanId);
  const member = await addMember(api, seen.ids.account ?? "", "owner");
  const shown = await browserOf(api, member.client).open(`/console/for/${seen.ids.account}${suffix}`);
  expect(shown.status).toBe(200);
  expect(shown.words).not.toContain("Your own root identity");
});

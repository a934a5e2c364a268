import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { texts } from "../../../src/console/texts/texts.ts";
import { contract } from "../../http/walk/documented.ts";
import { documentedRows } from "../../organizations/role_table.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { registerPlatform } from "../../support/platform_world.ts";
import { browserOf, formIn } from "../support/console.ts";
import { organizationOf } from "./organization.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

describe("the organization pages", () => {
  test("show the members, the invitations, and what each role may do", async () => {
    const { open, owner, approver, ids } = await organizationOf(api);
    const { words, text } = await open("/console/organization");
    expect(words).toContain("Analytical Engines · Deputize");
    expect(words).toContain(`Ada Lovelace (you) ${owner.email} owner`);
    expect(words).toContain(`Ada Lovelace ${approver.email} approver`);
    expect(words).toContain(`${String(ids.organization).slice(-12)}@example.test auditor ${owner.email}`);
    expect(text).toContain(`<code id="root-identity">${owner.humanId}</code>`);
    for (const hint of Object.values(texts.acting.roleHints)) expect(words).toContain(hint);
    expect(text).toContain(`href="/console/organization/members/${approver.accountId}"`);
    const seenBy = await browserOf(api, approver.client).open(
      `/console/for/${ids.organization}/organization`,
    );
    expect(seenBy.words).toContain(owner.email);
    expect(seenBy.text).not.toMatch(/organization\/(members|invite|invitations|settings|activity)/);
    expect(seenBy.words).not.toContain("Invitations that wait");
  });

  test("do not appear in the navigation of a personal account, and show it an explanation if they are opened", async () => {
    const browser = browserOf(api, (await api.person()).client);
    expect((await browser.open("/console")).text).not.toContain("/console/organization");
    const shown = await browser.open("/console/organization");
    expect([shown.status, shown.words]).toEqual([403, expect.stringContaining("This is for organizations")]);
  });

  test("rename the organization, and switch four eyes on and off", async () => {
    const { open, owner } = await organizationOf(api);
    const settings = await open("/console/organization/settings");
    const renamed = await settings.send("rename", { organization_name: "Difference Engines" });
    expect(renamed.words).toContain("The name was changed.");
    expect(renamed.text).toContain("<h1><bdi>Difference Engines</bdi></h1>");
    const refused = await settings.send("rename", { organization_name: "a\u202eb" });
    expect([refused.status, refused.text]).toEqual([
      400,
      expect.stringContaining('id="rename-organization_name-fault"'),
    ]);
    expect((await settings.send("four_eyes", { four_eyes: "on" })).words).toContain(
      texts.organization.fourEyesOn,
    );
    const on = await open("/console/organization/settings");
    expect(on.text).toMatch(/name="four_eyes" value="on" checked/);
    expect((await on.send("four_eyes", { four_eyes: [] })).words).toContain(texts.organization.fourEyesOff);
    expect((await owner.client.get("/v1/service/organization")).body.four_eyes).toBe(false);
  });

  test("let an owner choose who may connect products, and the activity list names the choice", async () => {
    const { open, owner } = await organizationOf(api);
    const settings = await open("/console/organization/settings");
    expect(settings.text).toMatch(/value="owners_and_approvers" checked/);
    const set = await settings.send("connecting", { connecting: "owners" });
    expect(set.words).toContain(texts.organization.connectors.owners);
    expect((await owner.client.get("/v1/service/organization")).body.connecting).toBe("owners");
    const wrong = await settings.send("connecting", { connecting: "everybody" });
    expect(wrong.status).toBe(400);
    expect((await open("/console/activity")).words).toContain("who may connect products owners");
  });

  test("change a member's role, and remove a member", async () => {
    const { open, approver, ids } = await organizationOf(api);
    const path = `/console/organization/members/${approver.accountId}`;
    const member = await open(path);
    expect(member.text).toMatch(/value="approver" checked/);
    const changed = await member.send("role", { role: "developer" });
    expect(changed.words).toContain(`Ada Lovelace ${approver.email} developer`);
    const removed = await (await open(path)).send("remove");
    expect(removed.words).toContain("The member was removed.");
    expect(removed.words).not.toContain(approver.email);
    expect((await open(path)).status).toBe(404);
    const theirs = await browserOf(api, approver.client).open(`/console/for/${ids.organization}`);
    expect(theirs.words).toContain("You cannot act for this account");
  });

  test("say in advance that the last owner cannot leave", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const browser = browserOf(api, owner.client);
    for (const path of ["leave", `members/${owner.accountId}`]) {
      const shown = await browser.open(`/console/organization/${path}`);
      expect(shown.words).toContain("this is the only one");
      expect(shown.text.slice(shown.text.indexOf("<main"))).not.toContain("<form");
    }
    const heir = await addMember(api, owner.accountId, "owner");
    const opened = await browser.open("/console/organization/leave");
    await api.db("organization_members").where({ account_id: heir.accountId }).delete();
    const late = await opened.send("leave");
    expect([late.status, late.words]).toEqual([409, expect.stringContaining("this is the only one")]);
    expect(late.words.split("this is the only one")).toHaveLength(2);
  });

  test("let a member leave permanently", async () => {
    const { approver, ids } = await organizationOf(api);
    const browser = browserOf(api, approver.client);
    const left = await (await browser.open(`/console/for/${ids.organization}/organization/leave`)).send(
      "leave",
    );
    expect(left.words).toContain("You left the organization.");
    expect(left.words).not.toContain("Analytical Engines");
  });

  test("send a second invitation from the same page only after a note about the first invitation", async () => {
    const { open, owner } = await organizationOf(api);
    const count = () => api.db("organization_invitations").where({ organization_id: owner.accountId });
    const before = (await count()).length;
    const form = await open("/console/organization/invite");
    await form.send("invite", { email: "one@example.test", role: "auditor" });
    const refused = await form.send("invite", { email: "two@example.test", role: "auditor" });
    expect([refused.status, refused.words]).toEqual([
      409,
      expect.stringContaining("Send it again to do this, too."),
    ]);
    expect((await refused.send("invite")).words).toContain("The invitation was sent.");
    expect(await count()).toHaveLength(before + 2);
  });

  test("say that the removal of a member, an invitation or a domain was already done if it is repeated", async () => {
    const { open, ids } = await organizationOf(api);
    const parts = [
      ["remove", `members/${ids.member}`, ""],
      ["withdraw", `invitations/${ids.invitation}`, ""],
      ["remove", `domains/${ids.domain}`, "/domains"],
    ] as const;
    for (const [name, part, list] of parts) {
      const page = await open(`/console/organization/${part}`);
      await page.send(name);
      const second = await page.send(name);
      expect([second.status, second.path]).toEqual([200, `/console/organization${list}?notice=done_already`]);
      expect(second.words).toContain("That was already done, or no longer exists.");
    }
  });

  test("show no notice for a URL that somebody else made up", async () => {
    const { open, client, owner } = await organizationOf(api);
    const words = "The name was changed.";
    expect((await open("/console/organization?notice=renamed")).words).not.toContain(words);
    const settings = await open("/console/organization/settings");
    const { action, fields } = formIn(settings, "rename");
    const sent = await client.call("POST", action, {
      headers: { origin: "http://127.0.0.1", "content-type": "application/x-www-form-urlencoded" },
      csrf: false,
      body: new URLSearchParams({ ...fields, organization_name: "New" }).toString(),
    });
    const address = sent.headers.get("location") ?? "";
    expect((await open(address)).words).toContain(words);
    expect((await open(address.replace("renamed", "invited"))).words).not.toContain("was sent");
    const other = await addMember(api, owner.accountId, "owner");
    const path = address.replace("/console", `/console/for/${owner.accountId}`);
    expect((await browserOf(api, other.client).open(path)).words).not.toContain(words);
    api.clock.advance(61);
    expect((await open(address)).words).not.toContain(words);
  });

  test("withdraw an invitation", async () => {
    const { open, ids } = await organizationOf(api);
    const path = `/console/organization/invitations/${ids.invitation}`;
    const withdrawn = await (await open(path)).send("withdraw");
    expect(withdrawn.words).toContain("The invitation was withdrawn.");
    expect(withdrawn.words).toContain("No invitation waits.");
    expect((await open(path)).status).toBe(404);
  });
});

describe("the activity page", () => {
  test("has texts for every call by which a member changes something", () => {
    const changing = contract.operations
      .filter(({ method }) => method !== "GET")
      .map(({ operationId }) => operationId);
    const acts = documentedRows().filter(
      ({ operation, roles }) => roles !== "person" && changing.includes(operation),
    );
    const known = Object.keys(texts.activity.operations);
    expect(known).toEqual(expect.arrayContaining(acts.map(({ operation }) => operation)));
  });

  test("names former members, also in its filter, and describes refusals in words", async () => {
    const { open, owner, approver, ids } = await organizationOf(api);
    const acting = { headers: { "x-service-account": String(ids.organization) } };
    await approver.client.call("POST", "/v1/service/organization/leave", acting);
    const gone = await addMember(api, String(ids.organization), "auditor");
    const path = `/v1/service/organization/members/${gone.accountId}`;
    for (let n = 0; n < 2; n++) await owner.client.call("DELETE", path);
    await owner.client.call("DELETE", path.replace(gone.accountId, approver.accountId));
    const { words, text } = await open("/console/activity");
    expect(words).toContain(`Removed a member member ${gone.email} ✓ Done`);
    expect(words).toContain(`Removed a member member ${approver.email} ✕ Refused`);
    expect(words).toContain(`Refused ${texts.activity.refusals.not_found}`);
    expect(words).not.toContain("not_found");
    expect(text).toContain(`<option value="${approver.accountId}">${approver.email} (no member any more)`);
  });

  test("lists the changes of all members or of one member, newest first, with the names of the people affected", async () => {
    const { open, owner, approver, ids } = await organizationOf(api);
    await (await open(`/console/organization/members/${approver.accountId}`)).send("role", {
      role: "auditor",
    });
    await browserOf(api, approver.client).client.call("POST", "/v1/service/organization/leave", {
      headers: { "x-service-account": String(ids.organization) },
    });
    const { words } = await open("/console/activity");
    expect(words).toMatch(
      /Left the organization.*Gave a member another role.*Invited somebody role auditor address/,
    );
    expect(words).toContain("role auditor");
    const one = await open(`/console/activity?account_id=${approver.accountId}`);
    expect(one.words).toContain("Left the organization");
    expect(one.words).not.toContain("Invited somebody role");
    expect(one.words).toContain(`${owner.email}`);
  });

  test("shows a person's own changes with names, by kind and by day, and as a file", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person, { name: "Shop" });
    await person.client.post("/v1/service/delegations/unknown/revoke", {});
    const { open, client } = browserOf(api, person.client);
    const { words, text } = await open("/console/activity");
    expect(words).toContain("What you did");
    expect(words).toMatch(/Revoked a delegation delegation unknown . Refused.*Registered a platform/);
    const link = `<a href="/console/platforms/${platform.platformId}" title="${platform.platformId}"><bdi>Shop</bdi></a>`;
    expect(text).toContain(link);
    expect(words).not.toContain("Member");
    const rows = async (query: string) =>
      [...(await open(`/console/activity?${query}`)).text.matchAll(/<time /g)].length;
    expect(await rows("operation=revoke_delegation")).toBe(1);
    expect(await rows("to=2001-01-01")).toBe(0);
    expect(await rows("from=2001-01-01")).toBe(2);
    expect((await open("/console/activity?from=soon")).words).toContain("The filters cannot be used:");
    const file = async (query: string) => (await client.get(`/console/activity/export?${query}`)).text;
    const lines = (await file("format=ndjson")).trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { operation: "revoke_delegation", status: "refused" },
      { status: "done", names: { [platform.platformId]: "Shop" } },
      { complete: true, entries: 2 },
    ]);
    expect(await file("format=csv&operation=revoke_delegation")).toContain(
      '"revoke_delegation","refused","not_found"',
    );
  });
});

test("the page of a member shows what ends with the membership, and so does the page on which the member leaves", async () => {
  const seen = await organizationOf(api);
  const { client, accountId } = seen.owner;
  const page = await seen.open(`/console/organization/members/${seen.ids.member}`);
  expect(page.words).toContain("What this person set up");
  expect(page.words).toContain("User of a cluster who decides: c1/ann@example.test");
  await client.call("PUT", "/v1/service/namespace-bindings/c1/team", { body: {} });
  const own = await seen.open("/console/organization/leave");
  expect(own.words).toContain("What you set up ends, unless another owner takes it over first:");
  expect(own.text).toContain('href="/console/clusters/c1/team"');
  expect(await api.db("namespace_bindings").where({ account_id: accountId })).toHaveLength(2);
});

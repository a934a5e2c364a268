import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { browserOf } from "../console/support/console.ts";
import { setScene } from "../http/walk/scene.ts";
import { accountCode, addressCodes, changeAddress, deleteAccount } from "../support/account_codes.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { steeredClock } from "../support/clock.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode, registerPlatform, type TestPlatform } from "../support/platform_world.ts";
import { connect, endFor, publisher } from "../support/two_companies.ts";

const PLATFORMS = "/v1/service/platforms";

let api: TestApi;
let person: Person;
beforeAll(async () => {
  api = await startApi({ clock: steeredClock() });
});
beforeEach(async () => {
  person = await api.person();
});
afterAll(() => api.stop());

/** Makes a person the last owner of an organization with another member, which somebody else opened. */
async function lastOwned(owner: Person): Promise<[organizationId: string, platform: TestPlatform]> {
  const opener = await api.person({ organization_name: "Engines" });
  const platform = await registerPlatform(opener, {}, PLATFORMS);
  await addMember(api, opener.accountId, "owner", owner);
  await addMember(api, opener.accountId, "developer");
  expect((await opener.client.post("/v1/service/organization/leave")).status).toBe(200);
  return [opener.accountId, platform];
}

const members = async (organizationId: string) =>
  (await api.db("organization_members").where({ organization_id: organizationId })).map(
    ({ account_id }) => account_id,
  );
const preview = async ({ client }: Person) => (await client.get("/v1/auth/account/deletion")).body;
const remove = ({ client }: Person, address_code: string) =>
  client.call("DELETE", "/v1/auth/account", { body: { address_code } });

describe("the deletion of an account", () => {
  test("ends API keys, agents, delegations and requests, and allows nothing after its answer", async () => {
    const scene = await setScene(api);
    const { connectionId } = scene.platform;
    const { proof_ref } = await scene.proof();
    const proof = { proof_ref, required_scope: "payments:send" };
    expect(await preview(scene.person)).toMatchObject({
      platforms: 1,
      agents: 1,
      delegations: 1,
      requests: 2,
    });
    expect((await deleteAccount(api, scene.person)).status).toBe(200);
    expect(errorCode(await scene.keyed("POST", "/v1/service/verify", proof))).toBe("invalid_api_key");
    const certificates = await api.db("certificates").where({ connection_id: connectionId });
    expect(certificates.map(({ status }) => status)).toEqual(certificates.map(() => "revoked"));
    const requests = await api
      .db("delegation_requests")
      .where({ connection_id: connectionId, status: "pending" });
    expect(requests).toEqual([]);
    const agents = await api.db("agents").where({ connection_id: connectionId });
    expect(
      agents.every(({ disabled_at, vault_due_at }) => disabled_at !== null && vault_due_at === null),
    ).toBe(true);
    const events = (await api.events(connectionId)).map(({ event }) => event);
    expect(events.slice(-2)).toEqual(["delegation.revoked", "connection.removed"]);
    const listed = await api.client().get(`/v1/service/revocations/${scene.person.humanId}`);
    expect(listed.text).toContain(scene.certId);
  });

  test("ends every sign-in and erases name, address and mail settings", async () => {
    const other = api.client();
    await other.signIn(person.email);
    await person.client.call("PATCH", "/v1/service/mails", { body: { request_waits: "off" } });
    await registerPlatform(person);
    await api
      .db("session_families")
      .where({ account_id: person.accountId })
      .update({ user_agent: "Browser" });
    const deleted = await deleteAccount(api, person);
    expect(deleted).toMatchObject({ status: 200, body: { deleted: true } });
    expect(person.client.cookie("service_session")).toBeUndefined();
    expect((await other.get("/v1/auth/session")).status).toBe(401);
    const families = await api.db("session_families").where({ account_id: person.accountId });
    expect(families.map(({ user_agent }) => user_agent)).toEqual(families.map(() => null));
    const acts = await api.db("organization_activity").where({ actor_account_id: person.accountId });
    expect(acts.length).toBeGreaterThan(0);
    expect(acts.filter(({ actor_email }) => actor_email !== `${person.accountId}@deleted.invalid`)).toEqual(
      [],
    );
    expect(await api.db("accounts").where({ account_id: person.accountId }).first()).toMatchObject({
      email: `${person.accountId}@deleted.invalid`,
      first_name: null,
      last_name: null,
      own_role: null,
    });
    expect(await api.db("mail_choices").where({ account_id: person.accountId })).toEqual([]);
    const { account_id, onboarding_step } = await api.client().signIn(person.email);
    expect(account_id).not.toBe(person.accountId);
    expect(onboarding_step).toBe("profile");
  });

  test("erases the name and the label under which a publisher knew the person", async () => {
    const shop = await publisher(api);
    const first = await connect(api, shop, { person });
    await endFor(api, first);
    const connections = [first, await connect(api, shop, { person })].map(({ connectionId }) => connectionId);
    const consent = { account_label: "ada@example.com", platform_name: "Shop" };
    for (const connection_id of connections) {
      await api.db("connect_consents").insert({
        ...{ consent_id: randomUUID(), connection_id, person_id: person.accountId, scopes: [] },
        ...{ consent: JSON.stringify(consent) as never, is_test: true, consented_at: api.clock.now() },
      });
    }
    expect((await deleteAccount(api, person)).status).toBe(200);
    const kept = await api.db("connections").whereIn("connection_id", connections);
    expect(kept.map(({ customer_name }) => customer_name)).toEqual(connections.map(() => "Deleted account"));
    const consents = await api.db("connect_consents").whereIn("connection_id", connections);
    expect(consents.map((row) => row.consent)).toEqual(
      [1, 2].map(() => ({ ...consent, account_label: null })),
    );
  });

  test("needs the code of its own mail, which is not a code for another change", async () => {
    const codes = await addressCodes(api, person);
    expect(errorCode(await remove(person, codes.address_code))).toBe("invalid_code");
    await person.client.post("/v1/auth/account/deletion-code");
    const code = await accountCode(api, person.email);
    const change = { address_code: code, new_address_code: codes.new_address_code };
    expect(errorCode(await person.client.post("/v1/auth/address", change))).toBe("invalid_code");
    for (let n = 0; n < 5; n += 1) {
      expect(errorCode(await remove(person, code === "00000000" ? "00000001" : "00000000"))).toBe(
        "invalid_code",
      );
    }
    expect(errorCode(await remove(person, code))).toBe("invalid_code");
    expect((await person.client.get("/v1/auth/session")).status).toBe(200);
  });

  test("leaves organizations with another owner, which list this", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    await addMember(api, owner.accountId, "developer", person);
    expect((await preview(person)).organizations).toEqual([
      { account_id: owner.accountId, organization_name: "Engines", effect: "left" },
    ]);
    expect((await deleteAccount(api, person)).status).toBe(200);
    expect(await members(owner.accountId)).toEqual([]);
    const { body } = await owner.client.get("/v1/service/organization/activity");
    expect((body.items as object[])[0]).toMatchObject({
      operation: "leave_organization",
      actor: { email: person.email },
      status: "done",
    });
  });

  test("changes nothing while another member would be left without an owner", async () => {
    const [organizationId, platform] = await lastOwned(person);
    expect((await preview(person)).organizations).toMatchObject([{ effect: "last_owner" }]);
    expect(errorCode(await deleteAccount(api, person))).toBe("last_owner");
    expect((await person.client.get("/v1/auth/session")).status).toBe(200);
    const connection = api.db("connections").where({ connection_id: platform.connectionId });
    expect(await connection.first("removed_at")).toEqual({ removed_at: null });
    expect(await members(organizationId)).toContain(person.accountId);
  });

  test("changes nothing while others use the organization that the person opened", async () => {
    const opener = await api.person({ organization_name: "Engines" });
    const platform = await registerPlatform(opener, {}, PLATFORMS);
    await addMember(api, opener.accountId, "owner", person);
    expect((await preview(opener)).organizations).toMatchObject([{ effect: "opened" }]);
    const refused = await deleteAccount(api, opener);
    expect([errorCode(refused), refused.text]).toEqual([
      "last_owner",
      expect.stringContaining("Remove them first"),
    ]);
    expect((await opener.client.post("/v1/service/organization/leave")).status).toBe(200);
    expect((await preview(opener)).organizations).toMatchObject([{ effect: "opened" }]);
    expect(errorCode(await deleteAccount(api, opener))).toBe("last_owner");
    const acting = actingFor(person, opener.accountId);
    expect((await acting.get(`/v1/service/connections/${platform.connectionId}`)).status).toBe(200);
    const row = await api.db("accounts").where({ account_id: opener.accountId }).first("email");
    expect(row?.email).toBe(opener.email);
  });

  test("ends an organization whose only member the person is, but not the sign-in of its opener", async () => {
    const opener = await api.person({ organization_name: "Engines" });
    const platform = await registerPlatform(opener, {}, PLATFORMS);
    await addMember(api, opener.accountId, "owner", person);
    expect((await opener.client.post("/v1/service/organization/leave")).status).toBe(200);
    expect((await preview(person)).organizations).toMatchObject([{ effect: "ends" }]);
    expect((await deleteAccount(api, person)).status).toBe(200);
    const connection = await api.db("connections").where({ connection_id: platform.connectionId }).first();
    expect(connection?.removed_at).not.toBeNull();
    expect((await opener.client.get("/v1/auth/session")).body).toMatchObject({
      email: opener.email,
      accounts: [],
    });
  });

  test("waits until nobody can put a former address back", async () => {
    const { newEmail, undo } = await changeAddress(api, person);
    const refused = await person.client.post("/v1/auth/account/deletion-code");
    expect(errorCode(refused)).toBe("address_changed");
    expect((await api.client().post("/v1/auth/address/undo", { token: await undo() })).status).toBe(200);
    await person.client.signIn(person.email);
    expect((await deleteAccount(api, person)).status).toBe(200);
    const other = await api.person();
    await other.client.post("/v1/auth/account/deletion-code");
    const code = await accountCode(api, other.email);
    await api.db("former_addresses").insert({
      ...{ email: `former-${newEmail}`, account_id: other.accountId, token_hash: Buffer.from(newEmail) },
      expires_at: addSeconds(api.clock.now(), 60),
    });
    expect(errorCode(await remove(other, code))).toBe("address_changed");
    await api.db("former_addresses").update({ expires_at: api.clock.now() });
    expect((await remove(other, code)).status).toBe(200);
  });

  test("does not lead to free credit again for the same address, and neither does a change of the address", async () => {
    await api.db("credited_addresses").delete();
    expect((await deleteAccount(api, person)).status).toBe(200);
    const again = api.client();
    await again.onboard(person.email);
    expect((await again.get("/v1/auth/session")).body).toMatchObject({ credits: 0 });
    const moved = await api.person();
    await api.db("credited_addresses").delete();
    const { answer, newEmail } = await changeAddress(api, moved);
    expect(answer.status).toBe(200);
    await api.db("former_addresses").delete();
    for (const email of [moved.email, newEmail]) {
      if (email === newEmail) expect((await deleteAccount(api, { ...moved, email })).status).toBe(200);
      const client = api.client();
      await client.onboard(email);
      expect((await client.get("/v1/auth/session")).body).toMatchObject({ credits: 0 });
    }
  });

  test("deletes nothing of other accounts", async () => {
    const [scene, other] = [await setScene(api), await setScene(api)];
    await deleteAccount(api, scene.person);
    const { proof_ref } = await other.proof();
    const proof = { proof_ref, required_scope: "payments:send" };
    expect((await other.keyed("POST", "/v1/service/verify", proof)).status).toBe(200);
    expect((await other.person.client.get("/v1/auth/session")).status).toBe(200);
  });
});

test("ends the channel, the domains, the invitations and the cluster users of an organization with one member", async () => {
  const owner = await api.person({ organization_name: "Engines" });
  const own = { account_id: owner.accountId };
  const at = api.clock.now();
  await api.db("request_channels").insert({
    ...{ ...own, app: "slack", url_sealed: Buffer.from("x"), host: "hooks.example.com" },
    ...{ console_root: "https://api.example.com", set_by: owner.accountId, set_at: at },
  });
  await owner.client.post("/v1/service/organization/domains", { domain: "shop.example.com" });
  await owner.client.post("/v1/service/organization/members", { email: "bob@example.test", role: "auditor" });
  await owner.client.post("/v1/service/cluster-approvers", { cluster: "c1", username: "ann" });
  const left = async () => [
    (await api.db("request_channels").where(own)).length,
    (await api.db("organization_domains").where({ organization_id: owner.accountId })).length,
    (await api.db("organization_invitations").where({ organization_id: owner.accountId })).length,
    (await api.db("cluster_approvers").where(own)).length,
  ];
  expect(await left()).toEqual([1, 1, 1, 1]);
  expect((await deleteAccount(api, owner)).status).toBe(200);
  expect(await left()).toEqual([0, 0, 0, 0]);
});

test("a person reads what ends, and deletes their account, on the pages of the console", async () => {
  await registerPlatform(person);
  const page = await browserOf(api, person.client).open("/console/account/delete");
  expect(page.words).toMatch(/Platforms, with their keys and callbacks 1/);
  const enter = await page.send("send_code");
  const code = await accountCode(api, person.email);
  await page.send("send_code");
  expect(await accountCode(api, person.email)).toBe(code);
  const wrong = await enter.send("delete", { address_code: "1" });
  expect(wrong.words).toContain("A code has eight digits");
  const done = await wrong.send("delete", { address_code: await accountCode(api, person.email) });
  expect(done.words).toContain("Your account is deleted");
  expect((await person.client.get("/v1/auth/session")).status).toBe(401);
});

test("a last owner reads on the page which organization needs another owner", async () => {
  await lastOwned(person);
  const page = await browserOf(api, person.client).open("/console/account/delete");
  expect(page.words).toContain("Engines needs an owner.");
  expect(page.text).not.toContain('value="send_code"');
});

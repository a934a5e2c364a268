import { describe, expect, test } from "vitest";
import { KEPT_ACTS } from "../../src/organizations/activity.ts";
import { wholeApi } from "../http/walk/world.ts";
import { changeAddress } from "../support/account_codes.ts";
import type { Person } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { createAgent, registerPlatform, selfRequest } from "../support/platform_world.ts";

const api = wholeApi();
const MEMBERS = "/v1/service/organization/members";
const ACTIVITY = "/v1/service/organization/activity";

const organization = () => api.person({ organization_name: "Analytical Engines" });
const activityOf = async ({ client }: Person, query = "") => (await client.get(`${ACTIVITY}${query}`)).body;

describe("the activity list", () => {
  test("names a member by email address after a changed role, a removal or a withdrawn invitation", async () => {
    const owner = await organization();
    const member = await addMember(api, owner.accountId, "developer");
    const path = `${MEMBERS}/${member.accountId}`;
    await owner.client.call("PATCH", path, { body: { role: "auditor" } });
    await owner.client.call("DELETE", path);
    const invited = await owner.client.post(MEMBERS, { email: "new@example.test", role: "owner" });
    const invitation_id = String(invited.body.invitation_id);
    await owner.client.call("DELETE", `/v1/service/organization/invitations/${invitation_id}`);
    const about = { account_id: member.accountId, email: member.email };
    expect((await activityOf(owner)).items).toMatchObject([
      { operation: "withdraw_invitation", target: { invitation_id, email: "new@example.test" } },
      { operation: "invite_organization_member" },
      { operation: "remove_organization_member", status: "done", target: about },
      { operation: "change_organization_member", status: "done", target: { ...about, role: "auditor" } },
    ]);
  });

  test("shows changes of a person's own name and address, without the new ones", async () => {
    const person = await api.person();
    const name = { first_name: "Grace", last_name: "Hopper" };
    expect((await person.client.call("PATCH", "/v1/auth/profile", { body: name })).status).toBe(200);
    const { answer } = await changeAddress(api, person);
    expect(answer.status).toBe(200);
    const { items } = await activityOf(person);
    expect(items).toMatchObject([
      { operation: "change_address", status: "done", actor: { email: person.email }, target: {} },
      { operation: "change_profile", status: "done", target: {} },
    ]);
    expect(items).toHaveLength(2);
  });

  test("does not show that a former member of their own account's organization changed their name", async () => {
    const opener = await organization();
    await addMember(api, opener.accountId, "owner");
    expect((await opener.client.post("/v1/service/organization/leave")).status).toBe(200);
    const name = { first_name: "Grace", last_name: "Hopper" };
    expect((await opener.client.call("PATCH", "/v1/auth/profile", { body: name })).status).toBe(200);
    const acts = api.db("organization_activity").where({ operation: "change_profile" });
    expect(await acts.where({ organization_id: opener.accountId })).toEqual([]);
  });

  test("shows no email address for the id of a person who is not a member", async () => {
    const [owner, stranger] = [await organization(), await api.person()];
    await owner.client.call("DELETE", `${MEMBERS}/${stranger.accountId}`);
    const activity = await activityOf(owner);
    expect(activity.items).toMatchObject([
      { status: "refused", error_code: "not_found", target: { account_id: stranger.accountId } },
    ]);
    expect(JSON.stringify(activity)).not.toContain(stranger.email);
  });

  test("shows what was created, although the calls' answers do not contain activity details", async () => {
    const owner = await organization();
    const platform = await registerPlatform(owner, { name: "Shop" }, "/v1/service/platforms");
    const agent = await createAgent(owner.client, platform);
    const request = await selfRequest(owner, platform.connectionId);
    const { items } = await activityOf(owner);
    expect(items).toMatchObject([
      { operation: "request_delegation", target: { request_id: request, agent_id: agent } },
      { operation: "register_platform", target: { platform_id: platform.platformId, platform_name: "Shop" } },
    ]);
    expect(platform.answer.body).not.toHaveProperty("told");
  });

  test("lists every actor of the organization once, regardless of the filters", async () => {
    const [owner, another] = [await organization(), await organization()];
    const member = await addMember(api, owner.accountId, "developer");
    const acting = actingFor(member, owner.accountId);
    for (const { client } of [owner, another]) {
      for (const four_eyes of [true, false]) {
        await client.call("PATCH", "/v1/service/organization", { body: { four_eyes } });
      }
    }
    await acting.post("/v1/service/organization/leave");
    const both = [owner, member].map(({ accountId, email }) => ({ account_id: accountId, email }));
    const byEmail = both.sort((a, b) => (a.email < b.email ? -1 : 1));
    expect((await activityOf(owner)).actors).toEqual(byEmail);
    expect(await activityOf(owner, `?limit=1&account_id=${member.accountId}`)).toMatchObject({
      items: [{ operation: "leave_organization" }],
      actors: byEmail,
    });
  });

  test("has a personal account's own changes and refusals, with names, and nobody else's", async () => {
    const [person, stranger] = [await api.person(), await api.person()];
    const platform = await registerPlatform(person, { name: "Shop" }, "/v1/service/platforms/personal");
    const agent = await createAgent(person.client, platform);
    const request = await selfRequest(person, platform.connectionId);
    await person.client.post("/v1/service/delegations/unknown/revoke", {});
    const { items, actors, names } = await activityOf(person);
    expect(items).toMatchObject([
      { operation: "revoke_delegation", status: "refused", target: { cert_id: "unknown" } },
      { operation: "request_delegation", status: "done", target: { request_id: request, agent_id: agent } },
      { operation: "register_personal_platform", target: { platform_id: platform.platformId } },
    ]);
    expect(actors).toEqual([{ account_id: person.accountId, email: person.email }]);
    const agentName = expect.any(String);
    expect(names).toEqual({
      [platform.platformId]: "Shop",
      [platform.connectionId]: "Shop",
      [agent]: agentName,
      [request]: agentName,
    });
    await stranger.client.get(`/v1/service/platforms/${platform.platformId}`);
    await stranger.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
      body: { name: "Mine" },
    });
    expect(await activityOf(stranger)).toMatchObject({
      items: [{ operation: "change_platform", status: "refused" }],
      names: {},
    });
  });

  /** Adds more acts and refusals than a personal account keeps, and returns how many remain of each. */
  async function flooded(
    { accountId }: Person,
    operation: string,
    act: () => Promise<unknown>,
  ): Promise<number[]> {
    await act();
    await api.db.raw(
      `insert into organization_activity select organization_id, uuidv7(), occurred_at - n * interval '1 second',
         actor_account_id, actor_email, actor_role, operation, target, state.status, error_code
       from organization_activity, generate_series(1, ?) as n, (values ('done'), ('refused')) as state (status)
       where organization_id = ? and operation = ?`,
      [KEPT_ACTS, accountId, operation],
    );
    await act();
    const kept = await api.db("organization_activity").where({ organization_id: accountId, operation });
    return ["done", "refused"].map((state) => kept.filter(({ status }) => status === state).length);
  }

  test("keeps the last acts of a person with each operation, and as many refusals", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const path = `/v1/service/platforms/${platform.platformId}`;
    const kept = await flooded(person, "change_platform", () =>
      person.client.call("PATCH", path, { body: { name: "Shop" } }),
    );
    expect(kept).toEqual([KEPT_ACTS, KEPT_ACTS]);
    const { items } = await activityOf(person, "?limit=2");
    expect(items).toMatchObject([{ status: "done" }, { status: "done" }]);
  });

  test("keeps every act of an organization, so that no member can displace their own acts", async () => {
    const owner = await organization();
    const rename = () =>
      owner.client.call("PATCH", "/v1/service/organization", { body: { organization_name: "Mills" } });
    expect(await flooded(owner, "change_organization", rename)).toEqual([KEPT_ACTS + 2, KEPT_ACTS]);
  });
});

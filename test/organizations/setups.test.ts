import { beforeEach, describe, expect, test } from "vitest";
import { sweepSetups } from "../../src/organizations/members.ts";
import { type Person, runningApi } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";

const APPROVERS = "/v1/service/cluster-approvers";
const BINDINGS = "/v1/service/namespace-bindings";
const MEMBERS = "/v1/service/organization/members";
const LEAVE = "/v1/service/organization/leave";
const api = runningApi();

let opener: Person;
let id: string;
let owner: Person;
let approver: Person;
let outsider: Person;
beforeEach(async () => {
  opener = await api.person({ organization_name: "Analytical Engines" });
  id = opener.accountId;
  owner = await addMember(api, id, "owner");
  approver = await addMember(api, id, "approver");
  outsider = await api.person();
});

const must = async (call: Promise<{ status: number; text: string; body: Record<string, unknown> }>) => {
  const answer = await call;
  if (answer.status >= 300) throw new Error(answer.text);
  return answer.body;
};
const user = (name: string) => ({ cluster: "c1", username: `${name}@example.test` });

/** Sets up one of everything as a person. Returns the items and the platform. */
async function setUp(by: Person) {
  const { put, post, patch } = actingFor(by, id);
  await must(post(APPROVERS, user("own")));
  await must(post(APPROVERS, { ...user("others"), member_account_id: approver.accountId }));
  await must(put(`${BINDINGS}/c1/team`, { ceiling: ["data:read"] }));
  const { platformId, connectionId } = await registerPlatform(opener, {}, "/v1/service/platforms");
  const acceptance = `/v1/service/platforms/${platformId}/accepted-principals/${outsider.humanId}`;
  await must(put(acceptance, { scopes: ["data:read"] }));
  const connection = `/v1/service/connections/${connectionId}`;
  await must(patch(connection, { outside_verifiers: ["https://bank.example"] }));
  const adoption = `/v1/service/platforms/${platformId}/adoption`;
  await must(put(adoption, { cluster: "c1", namespace: "team", name: "shop" }));
  await api.db("declared_ceilings").insert({
    account_id: id,
    cluster_id: "c1",
    namespace: "team",
    name: "shop",
    ceiling: ["data:read"],
  });
  return {
    adoption,
    acceptance,
    connection,
    items: [
      `accepted_principals/${platformId}`,
      "cluster_approver/c1/others@example.test",
      "cluster_approver/c1/own@example.test",
      "namespace_binding/c1/team",
      `outside_verifiers/${connectionId}`,
      `platform_adoption/${platformId}`,
    ],
  };
}

async function itemsOf({ accountId }: Person, by = opener): Promise<string[] | undefined> {
  const { members } = await must(actingFor(by, id).get(MEMBERS));
  return (members as { account_id: string; setups: string[] }[]).find((each) => each.account_id === accountId)
    ?.setups;
}

/** Returns what is in force: links, the namespace `team`, its ceilings, and what one platform accepts. */
async function inForce(adoption: string, by = opener) {
  const { get } = actingFor(by, id);
  const links = (await get(APPROVERS)).body.cluster_approvers as Record<string, unknown>[];
  const bindings = (await get(BINDINGS)).body.namespace_bindings as Record<string, unknown>[];
  const own = { account_id: id };
  const ceilings = await api.db("declared_ceilings").where(own);
  return {
    principals: await api.db("accepted_principals").where(own).pluck("human_id"),
    verifiers: (await api.db("connections").where(own).pluck("outside_verifiers")).flat(),
    links: links.map(({ username, member, linked_by }) => [
      username,
      (member as { email: string } | null)?.email,
      linked_by,
    ]),
    accepted: bindings.filter(({ namespace }) => namespace === "team").map(({ accepted_by }) => accepted_by),
    ceilings: ceilings.length,
    confirmed: ((await get(adoption)).body.adoption as { confirmed_by: string } | null)?.confirmed_by,
  };
}
const NOTHING = { principals: [], verifiers: [], links: [], accepted: [], ceilings: 0, confirmed: undefined };

test("members see what each member set up, and nobody else does", async () => {
  const { items } = await setUp(owner);
  expect(await itemsOf(owner)).toEqual(items);
  expect(await itemsOf(owner, approver)).toEqual(items);
  expect(await itemsOf(approver)).toEqual(items.slice(1, 2));
  expect(await itemsOf(opener)).toEqual(["namespace_binding/c1/default"]);
  const stranger = await api.person({ organization_name: "Others" });
  const { body } = await stranger.client.get(MEMBERS);
  expect(body.members).toMatchObject([{ setups: ["namespace_binding/c1/default"] }]);
});

/** Lets the account's platform look as if an object in this namespace declared it. */
const declareIn = (namespace: string) =>
  api
    .db("platforms")
    .where({ account_id: id })
    .update({ external_id: `c1.${crypto.randomUUID()}`, object_namespace: namespace, object_name: "shop" });

describe("everything that a person set up ends", () => {
  test.each(["owner", "opener"])("when the %s is removed", async (who) => {
    const [gone, other] = who === "owner" ? [owner, opener] : [opener, owner];
    const { adoption } = await setUp(gone);
    await must(actingFor(other, id).delete(`${MEMBERS}/${gone.accountId}`));
    expect(await inForce(adoption, other)).toEqual(NOTHING);
  });

  test("when the person leaves", async () => {
    const { adoption } = await setUp(owner);
    await must(actingFor(owner, id).post(LEAVE));
    expect(await inForce(adoption)).toEqual(NOTHING);
  });

  describe("even if nobody knows who set it up", () => {
    let adoption: string;
    let items: string[];
    beforeEach(async () => {
      ({ adoption, items } = await setUp(owner));
      const own = { account_id: id };
      await api.db("cluster_approvers").where(own).update({ linked_by: null, member_id: null });
      await api.db("namespace_bindings").where(own).update({ accepted_by: null });
      await api.db("adoptions").where(own).update({ confirmed_by: null });
      await api.db("accepted_principals").where(own).update({ accepted_by: null });
      await api.db("connections").where(own).update({ outside_verifiers_by: null });
      await api.db("namespace_bindings").insert({
        ...{ account_id: id, cluster_id: "c1", namespace: "asking", ceiling: null, four_eyes: false },
        ...{ asked_at: api.clock.now(), accepted_at: null, accepted_by: null },
      });
    });

    test.each([
      ["leaves", () => actingFor(owner, id).post(LEAVE)],
      ["is removed", () => actingFor(opener, id).delete(`${MEMBERS}/${owner.accountId}`)],
      [
        "gets another role",
        () => actingFor(opener, id).patch(`${MEMBERS}/${owner.accountId}`, { role: "developer" }),
      ],
    ])("when an owner %s, but requests of namespaces stay", async (_, call) => {
      expect(await itemsOf(owner)).toEqual(expect.arrayContaining(items));
      await must(call());
      expect(await inForce(adoption)).toEqual(NOTHING);
      expect(await api.db("namespace_bindings").where({ account_id: id })).toMatchObject([
        { namespace: "asking" },
      ]);
    });

    test.each(["approver", "developer", "auditor"] as const)(
      "but not when a member with the role %s leaves",
      async (role) => {
        const other = await addMember(api, id, role);
        const before = await inForce(adoption);
        expect(await itemsOf(other)).toEqual([]);
        await must(actingFor(other, id).post(LEAVE));
        expect(await inForce(adoption)).toEqual(before);
      },
    );

    test("but not what the object of a platform in another namespace declares", async () => {
      await declareIn("others");
      expect(await itemsOf(owner)).not.toContain(items[0]);
      await must(actingFor(owner, id).post(LEAVE));
      expect(await inForce(adoption)).toEqual({ ...NOTHING, principals: [outsider.humanId] });
    });
  });

  test.each([
    ["but not if another owner accepts the namespace again", true],
    ["with the principals that an object in the person's namespace accepted", false],
  ])("%s", async (_, isTakenOver) => {
    const { adoption } = await setUp(owner);
    await declareIn("team");
    await api.db("accepted_principals").where({ account_id: id }).update({ accepted_by: null });
    if (isTakenOver) {
      await must(actingFor(opener, id).put(`${BINDINGS}/c1/team`, { ceiling: ["data:read"] }));
    }
    await must(actingFor(opener, id).delete(`${MEMBERS}/${owner.accountId}`));
    expect((await inForce(adoption)).principals).toEqual(isTakenOver ? [outsider.humanId] : []);
  });

  test("but nothing that others set up", async () => {
    const { adoption } = await setUp(opener);
    const before = await inForce(adoption);
    await must(actingFor(opener, id).delete(`${MEMBERS}/${owner.accountId}`));
    expect(await inForce(adoption)).toEqual(before);
  });
});

test("an owner who loses the role keeps only their own link and the namespaces", async () => {
  const { adoption } = await setUp(owner);
  await must(actingFor(opener, id).patch(`${MEMBERS}/${owner.accountId}`, { role: "approver" }));
  expect(await inForce(adoption)).toEqual({
    links: [["own@example.test", owner.email, owner.email]],
    accepted: [owner.email],
    ceilings: 1,
    confirmed: undefined,
    principals: [outsider.humanId],
    verifiers: ["https://bank.example"],
  });
});

describe("the upkeep, after an earlier version changed a member's role", () => {
  const membership = () => ({ organization_id: id, account_id: owner.accountId });

  test("ends everything that a removed member set up", async () => {
    const { adoption } = await setUp(owner);
    await api.db("organization_members").where(membership()).delete();
    await sweepSetups(api);
    expect(await inForce(adoption)).toEqual(NOTHING);
  });

  test("ends everything that the opener of the account set up before leaving", async () => {
    const { adoption } = await setUp(opener);
    await api.db("accounts").where({ account_id: id }).update({ own_role: null });
    await sweepSetups(api);
    expect(await inForce(adoption, owner)).toEqual(NOTHING);
  });

  test("ends what only an owner may keep", async () => {
    const { adoption } = await setUp(owner);
    const before = await inForce(adoption);
    await api.db("organization_members").where(membership()).update({ role: "approver" });
    await sweepSetups(api);
    const links = [["own@example.test", owner.email, owner.email]];
    expect(await inForce(adoption)).toEqual({ ...before, links, confirmed: undefined });
  });

  test("keeps what present owners set up, also if nobody knows who did", async () => {
    const { adoption } = await setUp(owner);
    await api.db("cluster_approvers").where({ account_id: id }).update({ linked_by: null });
    await api.db("accepted_principals").where({ account_id: id }).update({ accepted_by: null });
    const before = await inForce(adoption);
    await sweepSetups(api);
    expect(await inForce(adoption)).toEqual(before);
    const person = await api.person();
    await must(person.client.post(APPROVERS, user("personal")));
    await sweepSetups(api);
    expect((await person.client.get(APPROVERS)).body.cluster_approvers).toHaveLength(1);
  });
});

describe("an owner takes over what a person set up", () => {
  async function takenOver(): Promise<string> {
    const { adoption, acceptance, connection, items } = await setUp(owner);
    const { put, post, patch } = actingFor(opener, id);
    await must(put(acceptance, { scopes: ["data:read"] }));
    await must(patch(connection, { outside_verifiers: ["https://bank.example"] }));
    await must(post(APPROVERS, { ...user("own"), member_account_id: id }));
    await must(post(APPROVERS, user("others")));
    await must(put(`${BINDINGS}/c1/team`, { ceiling: ["data:read"] }));
    await must(put(adoption, { cluster: "c1", namespace: "team", name: "shop" }));
    expect(await itemsOf(owner)).toEqual([]);
    expect(await itemsOf(opener)).toEqual([
      ...items.slice(0, 3),
      "namespace_binding/c1/default",
      ...items.slice(3),
    ]);
    return adoption;
  }

  test("by linking, accepting and confirming again, so that all of it outlives the removal", async () => {
    const adoption = await takenOver();
    await must(actingFor(opener, id).delete(`${MEMBERS}/${owner.accountId}`));
    expect(await inForce(adoption)).toEqual({
      links: [
        ["others@example.test", approver.email, opener.email],
        ["own@example.test", opener.email, opener.email],
      ],
      accepted: [opener.email],
      ceilings: 1,
      confirmed: opener.email,
      principals: [outsider.humanId],
      verifiers: ["https://bank.example"],
    });
  });

  test("by replacing the accepted principals with the same list", async () => {
    const { acceptance, items } = await setUp(owner);
    const accepted_principals = [{ human_id: outsider.humanId, scopes: ["data:read"] }];
    const path = acceptance.slice(0, acceptance.lastIndexOf("/"));
    await must(actingFor(opener, id).put(path, { accepted_principals }));
    expect(await itemsOf(owner)).toEqual(items.slice(1));
    expect(await itemsOf(opener)).toContain(items[0]);
  });

  test("and the rest ends", async () => {
    const { adoption } = await setUp(owner);
    await must(actingFor(opener, id).put(`${BINDINGS}/c1/team`, { ceiling: ["data:read"] }));
    await must(actingFor(owner, id).post(LEAVE));
    expect(await inForce(adoption)).toEqual({ ...NOTHING, accepted: [opener.email], ceilings: 1 });
  });

  test("but a member with another role cannot", async () => {
    const { items } = await setUp(owner);
    const { put, post } = actingFor(approver, id);
    expect(errorCode(await post(APPROVERS, user("own")))).toBe("forbidden");
    expect(errorCode(await put(`${BINDINGS}/c1/team`, {}))).toBe("forbidden");
    expect(await itemsOf(owner)).toEqual(items);
  });
});

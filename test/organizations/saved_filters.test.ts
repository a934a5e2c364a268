import { describe, expect, test } from "vitest";
import { sweepSetups } from "../../src/organizations/members.ts";
import { MAX_FILTERS } from "../../src/organizations/saved_filters.ts";
import { deleteAccount } from "../support/account_codes.ts";
import { type Person, runningApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";

const PATH = "/v1/service/audit/filters";
const api = runningApi();

type Caller = Pick<ReturnType<typeof actingFor>, "get" | "patch">;
const own = (person: Person): Caller => actingFor(person, person.accountId);
const filters = ({ body }: HttpAnswer) => (body as { filters: { name: string; query: string }[] }).filters;
const save = (by: Caller, name: string, query: string | null = "result=deny") =>
  by.patch(PATH, { name, query });
const namesOf = async (by: Caller) => filters(await by.get(PATH)).map(({ name }) => name);

describe("the saved filters of the history", () => {
  test("keep each query under its name, in order, until the person replaces or deletes it", async () => {
    const me = own(await api.person());
    await save(me, "Shop", "agent_id=a&from=2026-01-01");
    await save(me, " Denials ");
    await save(me, "Shop", "search=b%20c");
    const answer = await me.get(PATH);
    expect(filters(answer)).toEqual([
      { name: "Denials", query: "result=deny" },
      { name: "Shop", query: "search=b%20c" },
    ]);
    expect(filters(await save(me, "Shop", null)).map(({ name }) => name)).toEqual(["Denials"]);
    expect((await save(me, "Unknown", null)).status).toBe(200);
  });

  test("refuse a query that is not of the history, and a name with hidden characters", async () => {
    const me = own(await api.person());
    const refused = [
      await save(me, "A", "cursor=1"),
      await save(me, "A", "__proto__=1"),
      await save(me, "A", `search=${"a".repeat(2_000)}`),
      await save(me, "A\u202e"),
      await save(me, "a".repeat(61)),
      await save(me, ""),
    ];
    expect(refused.map(errorCode)).toEqual(Array(6).fill("invalid_request"));
    expect(await namesOf(me)).toEqual([]);
  });

  test("end at 20 for each member and account, of which each can still be replaced", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const member = await addMember(api, owner.accountId, "auditor");
    const [me, there] = [own(member), actingFor(member, owner.accountId)];
    for (let n = 0; n < MAX_FILTERS; n += 1) await save(me, `Filter ${n}`);
    const beyond = await save(me, "One more");
    expect([beyond.status, errorCode(beyond)]).toEqual([409, "filter_limit"]);
    expect((await save(me, "Filter 3", "result=allow")).status).toBe(200);
    expect((await save(there, "One more")).status).toBe(200);
    expect((await save(own(owner), "One more")).status).toBe(200);
  });

  test("belong to one member and one account", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const member = await addMember(api, owner.accountId, "developer");
    const stranger = await api.person();
    await save(own(owner), "Owner's");
    await save(actingFor(member, owner.accountId), "Member's");
    expect(await namesOf(own(owner))).toEqual(["Owner's"]);
    expect(await namesOf(actingFor(member, owner.accountId))).toEqual(["Member's"]);
    expect(await namesOf(own(member))).toEqual([]);
    expect((await actingFor(stranger, owner.accountId).get(PATH)).status).toBe(404);
    await save(own(owner), "Member's", null);
    expect(await namesOf(actingFor(member, owner.accountId))).toEqual(["Member's"]);
  });

  test("end when the member leaves the organization, and stay when the role changes", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const member = await addMember(api, owner.accountId, "owner");
    const there = actingFor(member, owner.accountId);
    await save(there, "Denials");
    const path = `/v1/service/organization/members/${member.accountId}`;
    await owner.client.call("PATCH", path, { body: { role: "auditor" } });
    expect(await namesOf(there)).toEqual(["Denials"]);
    await owner.client.call("DELETE", path);
    await addMember(api, owner.accountId, "owner", member);
    expect(await namesOf(there)).toEqual([]);
  });

  test("end by the sweep if an earlier version removed the member", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const member = await addMember(api, owner.accountId, "auditor");
    await save(own(owner), "Owner's");
    await save(actingFor(member, owner.accountId), "Member's");
    await api.db("organization_members").where({ account_id: member.accountId }).delete();
    await sweepSetups({ db: api.db });
    const kept = await api.db("saved_filters").where({ account_id: owner.accountId }).pluck("name");
    expect(kept).toEqual(["Owner's"]);
  });

  test("end with the person's account", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const member = await addMember(api, owner.accountId, "auditor");
    await save(own(member), "Own");
    await save(actingFor(member, owner.accountId), "Member's");
    expect((await deleteAccount(api, member)).status).toBe(200);
    expect(await api.db("saved_filters").where({ person_id: member.accountId })).toEqual([]);
  });
});

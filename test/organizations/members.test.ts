import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { MemberRole } from "../../src/route.ts";
import { SCOPE, setScene } from "../http/walk/scene.ts";
import { wholeApi } from "../http/walk/world.ts";
import type { Person } from "../support/api.ts";
import { createClient } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { createAgent, errorCode, registerPlatform } from "../support/platform_world.ts";

const api = wholeApi();
const MEMBERS = "/v1/service/organization/members";

async function organization() {
  const owner = await api.person({ organization_name: "Analytical Engines" });
  return { owner, id: owner.accountId };
}

async function withMember(role: MemberRole) {
  const { owner, id } = await organization();
  const member = await addMember(api, id, role);
  return { owner, id, member, acting: actingFor(member, id) };
}

describe("the header X-Service-Account", () => {
  test("selects the account of a call, by default the caller's own account", async () => {
    const { owner, id, member, acting } = await withMember("developer");
    await registerPlatform(owner, { name: "Theirs" }, "/v1/service/platforms");
    const names = async (of: { get(path: string): Promise<{ body: Record<string, unknown> }> }) =>
      ((await of.get("/v1/service/platforms")).body.items as { name: string }[]).map(({ name }) => name);
    expect(await names(acting)).toEqual(["Theirs"]);
    expect(await names(member.client)).toEqual([]);
    expect(await names(actingFor(member, member.accountId))).toEqual([]);
    expect(await names(actingFor(owner, id))).toEqual(["Theirs"]);
  });

  test("causes 404 for every account that is not the caller's, whether or not the account exists", async () => {
    const { member } = await withMember("owner");
    const { id: another } = await organization();
    for (const account of [another, randomUUID(), "none", "", "' or true --", "\u00e9"]) {
      const answer = await actingFor(member, account).get("/v1/service/platforms");
      expect([account, answer.status, errorCode(answer)]).toEqual([account, 404, "not_found"]);
    }
  });

  test("has no effect with an API key", async () => {
    const { owner, id } = await organization();
    const scene = await setScene(api);
    const headers = { "x-service-account": id };
    const answer = await scene.keyed("GET", "/v1/service/delegations", undefined, { headers });
    expect(answer.body).toMatchObject({ items: [{ cert_id: scene.certId }] });
    const { body } = await actingFor(owner, id).get("/v1/service/delegations");
    expect(body.items).toEqual([]);
  });

  test("requires the CSRF token, and is checked before the body", async () => {
    const { id, member } = await withMember("developer");
    const options = { headers: { "x-service-account": id }, csrf: false };
    expect(errorCode(await member.client.post("/v1/service/platforms", {}, options))).toBe("csrf_failed");
    const { acting } = await withMember("auditor");
    expect(errorCode(await acting.post("/v1/service/platforms", "{"))).toBe("forbidden");
  });
});

test("the session lists the accounts that a person may act for, with their role in each", async () => {
  const { id, member } = await withMember("approver");
  const { body } = await member.client.get("/v1/auth/session");
  expect(body.accounts).toEqual([
    { account_id: member.accountId, organization_name: null, role: "owner", credit: "enough", waiting: 0 },
    {
      ...{ account_id: id, organization_name: "Analytical Engines", role: "approver" },
      ...{ credit: "enough", waiting: 0 },
    },
  ]);
});

describe("a member", () => {
  test("loses access in every session with the first call after the removal", async () => {
    const { owner, id, member, acting } = await withMember("developer");
    const other = createClient(api.url);
    await other.signIn(member.email);
    const second = actingFor({ ...member, client: other }, id);
    expect((await second.get(MEMBERS)).status).toBe(200);
    expect((await owner.client.call("DELETE", `${MEMBERS}/${member.accountId}`)).body).toEqual({
      account_id: member.accountId,
      member: false,
    });
    for (const calls of [acting, second]) expect(errorCode(await calls.get(MEMBERS))).toBe("not_found");
    expect((await member.client.get("/v1/auth/session")).body.accounts).toHaveLength(1);
  });

  test("has a changed role from the next call on", async () => {
    const { owner, member, acting } = await withMember("auditor");
    const path = `${MEMBERS}/${member.accountId}`;
    expect(errorCode(await acting.patch(path, { role: "owner" }))).toBe("forbidden");
    await owner.client.call("PATCH", path, { body: { role: "owner" } });
    expect((await acting.patch(path, { role: "approver" })).body.role).toBe("approver");
    expect(errorCode(await acting.patch(path, { role: "owner" }))).toBe("forbidden");
  });

  test("can leave, whatever the role", async () => {
    const { acting } = await withMember("auditor");
    expect((await acting.post("/v1/service/organization/leave")).body.member).toBe(false);
    expect((await acting.get(MEMBERS)).status).toBe(404);
  });

  test("has no rights in a different organization, and cannot be changed from a different organization", async () => {
    const { member } = await withMember("owner");
    const { owner } = await organization();
    const path = `${MEMBERS}/${member.accountId}`;
    expect(errorCode(await owner.client.call("DELETE", path))).toBe("not_found");
    expect(errorCode(await owner.client.call("PATCH", path, { body: { role: "owner" } }))).toBe("not_found");
  });

  test("receives no stored answer or secret of a different person, even with the same idempotency key", async () => {
    const { owner, id, acting, member } = await withMember("developer");
    const key = { "idempotency-key": "same" };
    const body = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: [SCOPE] };
    const path = "/v1/service/platforms";
    const first = await owner.client.post(path, body, { headers: key });
    const headers = { ...key, "x-service-account": id };
    const second = await member.client.post(path, body, { headers });
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.headers.get("idempotent-replayed")).toBeNull();
    expect(second.body.api_key).not.toBe(first.body.api_key);
    expect((await acting.get(path)).body.items).toHaveLength(2);
  });
});

describe("an organization", () => {
  test("cannot lose its last owner, who can neither leave, be demoted nor be removed", async () => {
    const { owner, id } = await organization();
    await addMember(api, id, "approver");
    const path = `${MEMBERS}/${id}`;
    const refused = await Promise.all([
      owner.client.post("/v1/service/organization/leave"),
      owner.client.call("PATCH", path, { body: { role: "approver" } }),
      owner.client.call("DELETE", path),
    ]);
    expect(refused.map(errorCode)).toEqual(["last_owner", "last_owner", "last_owner"]);
  });

  test("keeps an owner even if all owners leave at the same time", async () => {
    const { owner, id } = await organization();
    const others = await Promise.all([1, 2, 3, 4].map(() => addMember(api, id, "owner")));
    const answers = await Promise.all(
      [owner, ...others].map((each) => actingFor(each, id).post("/v1/service/organization/leave")),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 409]);
  });

  test("lets the person who opened it leave: they can still sign in, but can do nothing", async () => {
    const { owner, id } = await organization();
    const heir = await addMember(api, id, "owner");
    expect((await owner.client.post("/v1/service/organization/leave")).status).toBe(200);
    for (const path of [MEMBERS, "/v1/service/platforms", "/v1/service/delegations"]) {
      expect(errorCode(await owner.client.get(path))).toBe("forbidden");
    }
    expect((await owner.client.get("/v1/auth/session")).body).toMatchObject({ accounts: [], credits: 0 });
    const { body } = await actingFor(heir, id).get(MEMBERS);
    expect((body.members as { email: string }[]).map(({ email }) => email)).toEqual([heir.email]);
  });
});

describe("an organization's delegation", () => {
  async function asked(by: Person, id: string) {
    const platform = await registerPlatform(await ownerOf(id), {}, "/v1/service/platforms");
    await createAgent(api.client(), platform);
    const { body } = await actingFor(by, id).post("/v1/service/delegations/self-request", {
      connection_id: platform.connectionId,
    });
    return String(body.request_id);
  }
  const owners = new Map<string, Person>();
  const ownerOf = async (id: string) => owners.get(id) ?? Promise.reject(new Error(id));
  async function begin() {
    const { owner, id } = await organization();
    owners.set(id, owner);
    return { owner, id };
  }
  const approve = (by: Person, id: string, requestId: string) =>
    actingFor(by, id).post(`/v1/service/delegations/requests/${requestId}/approve`, {
      approved_scope: [SCOPE],
    });

  test("shows who requested, who approved and who revoked it", async () => {
    const { id } = await begin();
    const [developer, approver] = [
      await addMember(api, id, "developer"),
      await addMember(api, id, "approver"),
    ];
    const requestId = await asked(developer, id);
    expect(errorCode(await approve(developer, id, requestId))).toBe("forbidden");
    const { body: approved } = await approve(approver, id, requestId);
    const acting = actingFor(approver, id);
    expect((await acting.get(`/v1/service/delegations/requests/${requestId}`)).body).toMatchObject({
      requested_by: developer.email,
      decided_by: approver.email,
    });
    await acting.post(`/v1/service/delegations/${approved.cert_id}/revoke`);
    expect((await acting.get(`/v1/service/delegations/${approved.cert_id}`)).body).toMatchObject({
      approved_by: approver.email,
      revoked_by: approver.email,
      status: "revoked",
    });
  });

  test("needs a second person only if the organization requires two", async () => {
    const { owner, id } = await begin();
    const approver = await addMember(api, id, "approver");
    expect((await approve(owner, id, await asked(owner, id))).status).toBe(200);
    const waiting = await asked(owner, id);
    await owner.client.call("PATCH", "/v1/service/organization", { body: { four_eyes: true } });
    expect(errorCode(await approve(owner, id, waiting))).toBe("four_eyes_required");
    expect((await approve(approver, id, waiting)).status).toBe(200);
    const unknown = await asked(owner, id);
    await api.db("delegation_requests").where({ request_id: unknown }).update({ requested_by: null });
    expect(errorCode(await approve(approver, id, unknown))).toBe("four_eyes_required");
  });
});

describe("the activity list", () => {
  test("shows who changed what, including refusals, but no reads", async () => {
    const { owner, id, member, acting } = await withMember("developer");
    const path = `${MEMBERS}/${member.accountId}`;
    await acting.get(MEMBERS);
    await acting.post("/v1/service/delegations/self-request", { connection_id: randomUUID() });
    await owner.client.call("PATCH", path, { body: { role: "auditor" } });
    const { body } = await acting.get("/v1/service/organization/activity");
    const actor = (of: Person, role: MemberRole) => ({ account_id: of.accountId, email: of.email, role });
    expect(body.items).toMatchObject([
      {
        actor: actor(owner, "owner"),
        operation: "change_organization_member",
        target: { account_id: member.accountId, role: "auditor" },
        status: "done",
        error_code: null,
      },
      {
        actor: actor(member, "developer"),
        operation: "request_delegation",
        status: "refused",
        error_code: "not_found",
      },
    ]);
    expect(await api.db("organization_activity").where({ organization_id: member.accountId })).toEqual([]);
    const filtered = await acting.get(`/v1/service/organization/activity?account_id=${id}&operation=x`);
    expect(filtered.body.items).toEqual([]);
  });

  test("contains a call before the call changes anything, so that an interrupted call is listed too", async () => {
    const { owner, id } = await organization();
    await api.db.raw("alter table platforms add constraint broken check (name <> 'Broken')");
    try {
      const fields = { name: "Broken", surface_type: "agentic_api", default_allowed_scopes: [SCOPE] };
      expect((await owner.client.post("/v1/service/platforms", fields)).status).toBe(500);
    } finally {
      await api.db.raw("alter table platforms drop constraint broken");
    }
    const { body } = await actingFor(owner, id).get("/v1/service/organization/activity");
    expect(body.items).toMatchObject([{ operation: "register_platform", status: "begun" }]);
  });

  test("does not exist for a personal account, like everything about organizations", async () => {
    const { client } = await api.person();
    for (const path of ["", "/members"]) {
      expect(errorCode(await client.get(`/v1/service/organization${path}`))).toBe("not_available");
    }
  });
});

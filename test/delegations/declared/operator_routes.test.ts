import { createHash, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { deleteUndecided } from "../../../src/delegations/requests/delete_undecided.ts";
import { runningApi } from "../../support/api.ts";
import { approve, errorCode } from "../../support/platform_world.ts";

const WEEK = 7 * 24 * 3600;

const api = runningApi();

const newUid = () => `c1.${randomUUID()}`;
const path = (id: string) => `/internal/v1/delegations/${encodeURIComponent(id)}`;
const readState = (external_ids: unknown, cluster = "c1") =>
  api.operator("POST", "/internal/v1/state", { external_ids }, { cluster });

async function ready() {
  const person = await api.person();
  const [platform, agent] = [newUid(), newUid()];
  const registered = await api.operator("PUT", `/internal/v1/platforms/${platform}`, {
    account_email: person.email,
    name: "Shop",
    surface_type: "agentic_api",
    default_allowed_scopes: ["data:read", "data:share", "payments:send"],
  });
  const created = await api.operator("PUT", `/internal/v1/agents/${agent}`, {
    platform_external_id: platform,
    name: "bot",
    agent_type: "api_agent",
  });
  const declare = (fields: Record<string, unknown> = {}, id = newUid()) =>
    api.operator("PUT", path(id), {
      platform_external_id: platform,
      agent_external_id: agent,
      requested_scope: ["data:read", "data:share"],
      ...fields,
    });
  const end = (id: string, body?: unknown) => api.operator("POST", `${path(id)}/revoke`, body);
  return {
    person,
    platform,
    agent,
    connectionId: String(registered.body.connection_id),
    registered,
    agentId: String(created.body.agent_id),
    declare,
    end,
  };
}

describe("an undecided request of an object", () => {
  const kept = async (id: string) => {
    await deleteUndecided({ db: api.db, now: addSeconds(api.clock.now(), 60 * WEEK), keptDays: 30 });
    return (await api.db("delegation_requests").where({ external_id: id })).length === 1;
  };

  test("stays while the object exists, also if the object revokes it", async () => {
    const { declare, end } = await ready();
    const [pending, revoked] = [newUid(), newUid()];
    for (const id of [pending, revoked]) await declare({}, id);
    await end(revoked, { reason: "done" });
    expect([await kept(pending), await kept(revoked)]).toEqual([true, true]);
  });

  test("disappears after the retention time if the object is deleted", async () => {
    const { declare, end } = await ready();
    const id = newUid();
    await declare({}, id);
    expect((await end(id, { reason: "deleted", object_gone: true })).body.status).toBe("withdrawn");
    await deleteUndecided({ db: api.db, now: api.clock.now(), keptDays: 30 });
    expect((await end(id, { object_gone: true })).status).toBe(200);
    expect(await kept(id)).toBe(false);
  });

  test("stays as an approved request with its certificate if the object is deleted", async () => {
    const { person, declare, end } = await ready();
    const id = newUid();
    const filed = await declare({}, id);
    await approve(person, String(filed.body.request_id), ["data:read"]);
    expect((await end(id, { object_gone: true })).body.status).toBe("revoked");
    expect(await kept(id)).toBe(true);
  });
});

describe("declaring a delegation", () => {
  test("files at most ten requests of one name in ten minutes, and never refuses to end one", async () => {
    const { declare, end } = await ready();
    const object = (name: string) => ({ object: { namespace: "default", name } });
    for (let count = 0; count < 10; count += 1) {
      const id = newUid();
      expect((await declare(object("help"), id)).status).toBe(200);
      expect((await end(id)).body.status).toBe("withdrawn");
    }
    expect(errorCode(await declare(object("help")))).toBe("action_limited");
    const other = newUid();
    expect((await declare(object("other"), other)).status).toBe(200);
    expect((await declare(object("other"), other)).status).toBe(200);
  });

  test("files at most 1,000 requests of one namespace in a day, whatever their names are", async () => {
    const { person, declare, end } = await ready();
    const id = newUid();
    const object = (name: string) => ({ object: { namespace: "default", name } });
    expect((await declare(object("first"), id)).status).toBe(200);
    await end(id);
    const key = createHash("sha256")
      .update(JSON.stringify([person.accountId, "c1", "default"]))
      .digest("hex");
    const counted = api.db("rate_limits").whereLike("key", `request_in_namespace_%:${key}`);
    expect(await counted.clone().update({ points: 1_000 })).toBe(1);
    const refused = await declare(object("second"));
    expect([refused.status, errorCode(refused)]).toEqual([429, "action_limited"]);
  });

  test("accepts constraints of at most 16,384 bytes", async () => {
    const { declare } = await ready();
    const sized = (bytes: number) => {
      const list = (text: string) => [{ type: "x_note", params: { text } }];
      return list("x".repeat(bytes - JSON.stringify(list("")).length));
    };
    expect(errorCode(await declare({ constraints: sized(16_385) }))).toBe("invalid_request");
    expect((await declare({ constraints: sized(16_384) })).status).toBe(200);
  });

  test("files a request that the owner can see and approve in part", async () => {
    const { person, declare, agentId } = await ready();
    const id = newUid();
    const filed = await declare({ expires_in: 3600, requested_by: "ada@cluster", purpose: "Refunds" }, id);
    const requestId = String(filed.body.request_id);
    expect([filed.status, filed.body]).toEqual([
      200,
      {
        request_id: expect.stringMatching(/^req-/),
        account_id: person.accountId,
        status: "pending",
        reason: null,
        requested_scope: ["data:read", "data:share"],
        approved_scope: null,
        cert_id: null,
        issued_at: null,
        expires_at: null,
        decided_by: null,
      },
    ]);
    const shown = await person.client.get(`/v1/service/delegations/requests/${requestId}`);
    expect(shown.body).toMatchObject({
      status: "pending",
      agent_id: agentId,
      agent: { custody_mode: "custodial" },
      purpose: "Refunds",
      requested_by: null,
      requested_expires_in: 3600,
      declared_by: {
        cluster_id: "c1",
        namespace: "default",
        name: id.slice("c1.".length),
        requested_by: "ada@cluster",
      },
    });
    const { body: certificate } = await approve(person, requestId, ["data:read"]);
    expect((await declare({ expires_in: 3600 }, id)).body).toEqual({
      ...filed.body,
      status: "approved",
      approved_scope: ["data:read"],
      cert_id: certificate.cert_id,
      issued_at: certificate.issued_at,
      expires_at: certificate.expires_at,
      decided_by: person.email,
    });
  });

  test("files one request if 8 calls race, and no additional request later", async () => {
    const { declare, connectionId } = await ready();
    const id = newUid();
    const answers = await Promise.all(Array.from({ length: 8 }, () => declare({}, id)));
    for (const { status, body } of answers) expect([status, body]).toEqual([200, answers[0]!.body]);
    api.clock.advance(WEEK);
    expect((await declare({}, id)).body).toEqual({ ...answers[0]!.body, status: "expired" });
    expect(await api.db("delegation_requests").where({ connection_id: connectionId })).toHaveLength(1);
  });

  test("returns the same answer after the requested expiry has passed", async () => {
    const { declare } = await ready();
    const id = newUid();
    const expires_at = new Date(api.clock.now().getTime() + 60_000).toISOString();
    const filed = await declare({ expires_at }, id);
    api.clock.advance(120);
    expect((await declare({ expires_at }, id)).body).toEqual(filed.body);
    expect(errorCode(await declare({ expires_at }))).toBe("invalid_expiry");
  });

  test("refuses changed content for an object that already has a request", async () => {
    const { declare, platform } = await ready();
    const id = newUid();
    const constraints = [{ type: "max_speed_mps", max_mps: 3 }];
    await declare({ expires_in: 60, constraints }, id);
    const other = newUid();
    await api.operator("PUT", `/internal/v1/agents/${other}`, {
      platform_external_id: platform,
      name: "other",
      agent_type: "robot",
    });
    for (const change of [
      { requested_scope: ["data:read"] },
      { requested_scope: ["data:read", "data:share", "payments:send"] },
      { expires_in: 61 },
      { expires_in: undefined },
      { expires_in: undefined, expires_at: "2090-01-01T00:00:00Z" },
      { constraints: [] },
      { agent_external_id: other },
    ]) {
      const answer = await declare({ expires_in: 60, constraints, ...change }, id);
      expect([answer.status, errorCode(answer)]).toEqual([409, "external_conflict"]);
    }
    const reordered = {
      requested_scope: ["data:share", "data:read"],
      expires_in: 60,
      constraints: [{ max_mps: 3, type: "max_speed_mps" }],
    };
    expect((await declare(reordered, id)).status).toBe(200);
  });

  test("follows the same rules as requests by people", async () => {
    const { declare, agent } = await ready();
    const refused = async (fields: Record<string, unknown>) => errorCode(await declare(fields));
    expect(await refused({ requested_scope: ["data:delete"] })).toBe("ceiling_exceeded");
    expect(await refused({ requested_scope: ["nope"] })).toBe("invalid_scopes");
    expect(await refused({ requested_scope: [] })).toBe("invalid_request");
    expect(await refused({ expires_in: 1, expires_at: "2090-01-01T00:00:00Z" })).toBe("invalid_expiry");
    expect(await refused({ constraints: [{ type: "max_speed_mps" }] })).toBe("invalid_constraints");
    expect(await refused({ platform_external_id: newUid() })).toBe("not_found");
    expect(await refused({ agent_external_id: newUid() })).toBe("not_found");
    const theirs = await ready();
    expect(await refused({ agent_external_id: theirs.agent })).toBe("not_found");
    await api.operator("DELETE", `/internal/v1/agents/${agent}`);
    expect(await refused({})).toBe("agent_disabled");
  });
});

describe("ending a declared delegation", () => {
  test("withdraws a pending request, which then cannot be approved", async () => {
    const { person, declare, end, connectionId } = await ready();
    const id = newUid();
    const { body } = await declare({}, id);
    const ended = await end(id, { reason: "object deleted" });
    expect(ended.body).toEqual({ ...body, status: "withdrawn", reason: "object deleted" });
    expect((await end(id, { reason: "again" })).body).toEqual(ended.body);
    expect(errorCode(await approve(person, String(body.request_id), ["data:read"]))).toBe(
      "request_not_pending",
    );
    expect(await api.events(connectionId)).toHaveLength(1);
  });

  test("revokes an approved certificate, once", async () => {
    const { person, declare, end, connectionId } = await ready();
    const id = newUid();
    const { body } = await declare({}, id);
    await approve(person, String(body.request_id), ["data:read"]);
    const ended = await end(id, { reason: "revoked: true" });
    expect(ended.body).toMatchObject({
      status: "revoked",
      reason: "revoked: true",
      approved_scope: ["data:read"],
    });
    expect((await end(id)).body).toEqual(ended.body);
    const events = await api.events(connectionId);
    expect(events.filter(({ event }) => event === "delegation.revoked")).toHaveLength(1);
  });

  test("leaves a denied or expired delegation unchanged", async () => {
    const { person, declare, end } = await ready();
    const [denied, late] = [newUid(), newUid()];
    const { body } = await declare({}, denied);
    await person.client.post(`/v1/service/delegations/requests/${String(body.request_id)}/deny`, {
      reason: "no",
    });
    expect((await end(denied)).body).toMatchObject({
      status: "denied",
      reason: "no",
      decided_by: person.email,
    });
    await declare({}, late);
    api.clock.advance(WEEK);
    expect((await end(late)).body).toMatchObject({ status: "expired", reason: null });
  });

  test("leaves no active certificate if it races with an approval", async () => {
    for (let round = 0; round < 10; round += 1) {
      const { person, declare, end } = await ready();
      const id = newUid();
      const requestId = String((await declare({}, id)).body.request_id);
      const [, ended] = await Promise.all([approve(person, requestId, ["data:read"]), end(id)]);
      expect(["withdrawn", "revoked"]).toContain(ended.body.status);
      const active = await api.db("certificates").where({ request_id: requestId, status: "approved" });
      expect(active).toEqual([]);
    }
  });

  test("answers not_found for an unknown object", async () => {
    const { end } = await ready();
    const answer = await end(newUid());
    expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
  });
});

describe("reading the state of declared objects", () => {
  test("returns the state of each known object, and omits unknown ones", async () => {
    const { declare, platform, agent, agentId, registered } = await ready();
    const id = newUid();
    const filed = await declare({}, id);
    const state = await readState([platform, agent, id, newUid()]);
    const { platform_id, connection_id, api_key_prefix, api_key_issued_at } = registered.body;
    const { workspace_id, verifier_id } = registered.body;
    const ids = { connection_id, workspace_id, verifier_id };
    const key = { api_key_prefix, api_key_issued_at, rotation_request: null };
    expect([state.status, state.body]).toEqual([
      200,
      {
        time: api.clock.now().toISOString(),
        platforms: {
          [platform]: { platform_id, ...ids, ...key, publish_state: "draft", customers: 0, removed: false },
        },
        agents: { [agent]: { agent_id: agentId, disabled: false, key: null } },
        delegations: { [id]: filed.body },
      },
    ]);
    await api.operator("DELETE", `/internal/v1/platforms/${platform}`);
    expect((await readState([platform, agent, id])).body).toMatchObject({
      platforms: { [platform]: { removed: true, api_key_prefix: null, api_key_issued_at: null } },
      agents: { [agent]: { disabled: true } },
      delegations: { [id]: { status: "withdrawn", reason: "connection removed" } },
    });
  });

  test("accepts 500 ids but not 501", async () => {
    const ids = Array.from({ length: 500 }, newUid);
    expect((await readState(ids)).body).toMatchObject({ platforms: {}, agents: {}, delegations: {} });
    expect(errorCode(await readState([...ids, newUid()]))).toBe("invalid_request");
    expect((await readState([])).status).toBe(200);
  });

  test("returns nothing to the operator of a different cluster", async () => {
    const { declare, platform, agent } = await ready();
    const id = newUid();
    await declare({}, id);
    const state = await readState([platform, agent, id], "c2");
    expect(state.body).toEqual({
      time: api.clock.now().toISOString(),
      platforms: {},
      agents: {},
      delegations: {},
    });
    for (const [method, target, body] of [
      ["POST", `${path(id)}/revoke`, {}],
      [
        "PUT",
        path(id),
        { platform_external_id: platform, agent_external_id: agent, requested_scope: ["data:read"] },
      ],
      [
        "PUT",
        path("c2.x"),
        { platform_external_id: platform, agent_external_id: agent, requested_scope: ["data:read"] },
      ],
    ] as const) {
      const answer = await api.operator(method, target, body, { cluster: "c2" });
      expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    }
    expect((await readState([id])).body.delegations).toMatchObject({ [id]: { status: "pending" } });
  });
});

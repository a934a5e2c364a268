import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { NO_EXPIRY_SENTINEL } from "../../src/protocol/encoding/constants.ts";
import { runningApi } from "../support/api.ts";
import {
  approve,
  createAgent,
  delegated,
  errorCode,
  registerPlatform,
  selfRequest,
} from "../support/platform_world.ts";

const WEEK = 7 * 24 * 3600;
const ceiling = ["data:read", "data:share", "payments:send", "custom:orders:refund"];
const path = "/v1/service/delegations/self-request";

const api = runningApi();

async function ready() {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const agentId = await createAgent(api.client(), platform);
  const ask = (fields: Record<string, unknown> = {}) =>
    person.client.post(path, { connection_id: platform.connectionId, ...fields });
  return { person, platform, agentId, ask };
}

describe("requesting a delegation", () => {
  test("keeps the purpose as one visible line of at most 300 characters", async () => {
    const { ask, person } = await ready();
    const { body } = await ask({ purpose: "  Refund customers who cancel  " });
    const shown = await person.client.get(`/v1/service/delegations/requests/${String(body.request_id)}`);
    expect(shown.body.purpose).toBe("Refund customers who cancel");
    expect((await ask({ purpose: "x".repeat(300) })).status).toBe(201);
    for (const purpose of ["", "x".repeat(301), "two\nlines", "hid\u200bden", "turned\u202e around", 7]) {
      const refused = await ask({ purpose });
      expect([refused.status, errorCode(refused)], String(purpose)).toEqual([400, "invalid_request"]);
    }
  });

  test("requests the whole ceiling for the only agent by default", async () => {
    const { ask, agentId, person, platform } = await ready();
    const { status, body } = await ask();
    expect(status).toBe(201);
    expect(body).toEqual({
      request_id: expect.stringMatching(/^req-[0-9a-f-]{36}$/),
      status: "pending",
      agent_id: agentId,
      requested_scope: ceiling,
    });
    const shown = await person.client.get(`/v1/service/delegations/requests/${String(body.request_id)}`);
    expect(shown.body).toEqual({
      request_id: body.request_id,
      connection_id: platform.connectionId,
      agent_id: agentId,
      agent: {
        name: "shop-bot",
        key_fingerprint: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        custody_mode: "custodial",
      },
      status: "pending",
      requested_scope: ceiling,
      scope_descriptions: {},
      purpose: null,
      refusal: null,
      constraints: [],
      requested_expires_at: null,
      requested_expires_in: null,
      reason: null,
      created_at: api.clock.now().toISOString(),
      expires_at: addSeconds(api.clock.now(), WEEK).toISOString(),
      requested_by: person.email,
      connected_by: null,
      declared_by: null,
      four_eyes: false,
      decided_at: null,
      decided_by: null,
      decided_in_cluster: null,
      approved_scope: null,
      cert_id: null,
      linked_cert_id: null,
      platform: { platform_id: platform.platformId, name: expect.any(String) },
      publisher: null,
    });
  });

  test("keeps the requested scopes, constraints and expiry", async () => {
    const { ask, person } = await ready();
    const constraints = [
      { type: "max_amount", max_amount: 10.5, currency: "EUR" },
      { type: "vendor_rule", params: { b: 1, a: [null, "é"] } },
    ];
    const { body } = await ask({ requested_scope: ["data:*", "data:*"], expires_in: 3600, constraints });
    expect(body.requested_scope).toEqual(["data:*"]);
    const shown = await person.client.get(`/v1/service/delegations/requests/${String(body.request_id)}`);
    expect(shown.body).toMatchObject({ constraints, requested_expires_in: 3600, requested_expires_at: null });
  });

  test("fails without an agent", async () => {
    const person = await api.person();
    const { connectionId } = await registerPlatform(person);
    const answer = await person.client.post(path, { connection_id: connectionId });
    expect([answer.status, errorCode(answer)]).toEqual([409, "no_agent"]);
  });

  test("requires an agent id if there are several agents, and ignores deleted agents", async () => {
    const { ask, platform, agentId } = await ready();
    const other = await createAgent(api.client(), platform);
    const answer = await ask();
    expect([answer.status, errorCode(answer)]).toEqual([400, "agent_required"]);
    expect((await ask({ agent_id: other })).body.agent_id).toBe(other);
    await api.client().call("DELETE", `/v1/service/connections/${platform.connectionId}/agents/${other}`, {
      headers: { "x-service-api-key": platform.apiKey },
    });
    expect((await ask()).body.agent_id).toBe(agentId);
    const disabled = await ask({ agent_id: other });
    expect([disabled.status, errorCode(disabled)]).toEqual([409, "agent_disabled"]);
  });

  test("refuses scopes above the ceiling", async () => {
    const { ask } = await ready();
    const over = await ask({ requested_scope: ["data:read", "payments:receive", "data:delete"] });
    expect([over.status, errorCode(over)]).toEqual([400, "ceiling_exceeded"]);
    const { message } = over.body.error as { message: string };
    expect(message).toContain('"data:delete", "payments:receive"');
    expect(message).not.toContain("data:read");
    expect(errorCode(await ask({ requested_scope: ["payments:*"] }))).toBe("ceiling_exceeded");
    expect((await ask({ requested_scope: ["data:*"] })).status).toBe(201);
  });

  test.each([
    ["an unknown scope", { requested_scope: ["nope"] }, "invalid_scopes"],
    ["no scope", { requested_scope: [] }, "invalid_request"],
    ["65 scopes", { requested_scope: Array(65).fill("data:read") }, "invalid_request"],
    ["two forms of the expiry", { expires_in: 60, expires_at: "2999-01-01T00:00:00Z" }, "invalid_expiry"],
    ["zero seconds", { expires_in: 0 }, "invalid_request"],
    ["half a second", { expires_in: 0.5 }, "invalid_request"],
    ["a malformed expiry", { expires_at: "tomorrow" }, "invalid_request"],
    ["a constraint without a type", { constraints: [{}] }, "invalid_constraints"],
    ["a constraint of another type", { constraints: ["x"] }, "invalid_request"],
    [
      "an unknown field of a constraint",
      { constraints: [{ type: "max_speed_mps", max_mps: 1, x: 1 }] },
      "invalid_constraints",
    ],
    [
      "a constraint that nothing can meet",
      { constraints: [{ type: "max_amount", max_amount: -1, currency: "EUR" }] },
      "invalid_constraints",
    ],
    [
      "constraints that contradict each other",
      {
        constraints: [
          { type: "resource_path", resource_id: "a" },
          { type: "resource_path", resource_id: "b" },
        ],
      },
      "invalid_constraints",
    ],
    [
      "a constraint nested 100,000 deep",
      `{"constraints":[{"type":"x","params":${"[".repeat(1e5)}${"]".repeat(1e5)}}]`,
      "invalid_request",
    ],
    [
      "a constraint nested deeper than a certificate may be",
      {
        constraints: [
          {
            type: "x",
            params: Array(12)
              .fill(0)
              .reduce((inner: unknown) => [inner], 1),
          },
        ],
      },
      "invalid_constraints",
    ],
    ["33 constraints", { constraints: Array(33).fill({ type: "x" }) }, "invalid_request"],
    ["an infinite number", '{"constraints":[{"type":"max_speed_mps","max_mps":1e999}]', "invalid_request"],
  ])("refuses %s and files nothing", async (_, fields, expected) => {
    const { ask, person, platform } = await ready();
    const answer =
      typeof fields === "string"
        ? await person.client.post(path, `${fields},"connection_id":"${platform.connectionId}"}`)
        : await ask(fields);
    expect([answer.status, errorCode(answer)]).toEqual([400, expected]);
    expect(await api.db("delegation_requests").where({ connection_id: platform.connectionId })).toEqual([]);
  });

  test("accepts a constraint nested as deep as a certificate allows", async () => {
    const { ask } = await ready();
    const params = Array(11)
      .fill(0)
      .reduce((inner: unknown) => [inner], 1);
    expect((await ask({ constraints: [{ type: "x", params }] })).status).toBe(201);
  });

  test("accepts 32 constraints and 64 scopes", async () => {
    const { ask } = await ready();
    expect((await ask({ constraints: Array(32).fill({ type: "x" }) })).status).toBe(201);
    expect((await ask({ requested_scope: Array(64).fill("data:read") })).status).toBe(201);
  });

  test("accepts an expiry one second from now, but no immediate expiry", async () => {
    const { ask } = await ready();
    const now = api.clock.now();
    const second = Math.floor(now.getTime() / 1000);
    const at = (seconds: number) => new Date(seconds * 1000).toISOString();
    expect(errorCode(await ask({ expires_at: at(second) }))).toBe("invalid_expiry");
    expect((await ask({ expires_at: at(second + 1) })).status).toBe(201);
  });

  test("accepts an expiry one second before the wire format's value for no expiry, but not that value itself", async () => {
    const { ask } = await ready();
    const at = (seconds: number) => new Date(seconds * 1000).toISOString();
    expect(errorCode(await ask({ expires_at: at(NO_EXPIRY_SENTINEL) }))).toBe("invalid_expiry");
    expect((await ask({ expires_at: at(NO_EXPIRY_SENTINEL - 1) })).status).toBe(201);
    const left = NO_EXPIRY_SENTINEL - Math.floor(api.clock.now().getTime() / 1000);
    if (left <= 2_147_483_647) expect(errorCode(await ask({ expires_in: left }))).toBe("invalid_expiry");
    expect(errorCode(await ask({ expires_in: 2_147_483_648 }))).toBe("invalid_request");
  });

  test("answers not_found for connections and agents that are unknown or belong to a different account", async () => {
    const { person } = await ready();
    const theirs = await ready();
    const mine = await ready();
    for (const [client, body] of [
      [person.client, { connection_id: theirs.platform.connectionId }],
      [person.client, { connection_id: crypto.randomUUID() }],
      [person.client, { connection_id: "nonsense" }],
      [mine.person.client, { connection_id: mine.platform.connectionId, agent_id: theirs.agentId }],
      [mine.person.client, { connection_id: mine.platform.connectionId, agent_id: "nonsense" }],
    ] as const) {
      const answer = await client.post(path, body);
      expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    }
  });
});

describe("a pending request", () => {
  test("can be approved in the last millisecond of its 7 days, and is shown as expired after that", async () => {
    const { person, platform } = await ready();
    const [first, second] = [
      await selfRequest(person, platform.connectionId),
      await selfRequest(person, platform.connectionId),
    ];
    const end = addSeconds(api.clock.now(), WEEK);
    api.clock.set(new Date(end.getTime() - 1));
    await person.client.signIn(person.email);
    expect((await approve(person, first, ["data:read"])).status).toBe(200);
    api.clock.set(end);
    const late = await approve(person, second, ["data:read"]);
    expect([late.status, errorCode(late)]).toEqual([409, "request_not_pending"]);
    const denied = await person.client.post(`/v1/service/delegations/requests/${second}/deny`, {});
    expect(errorCode(denied)).toBe("request_not_pending");
    const shown = await person.client.get(`/v1/service/delegations/requests/${second}`);
    expect(shown.body).toMatchObject({ status: "expired", decided_at: null, decided_by: null });
    expect((await api.db("delegation_requests").where({ request_id: second }).first())!.status).toBe(
      "expired",
    );
  });

  test("appears as expired in lists too, and matches the filter for expired requests", async () => {
    const { person, platform } = await ready();
    const id = await selfRequest(person, platform.connectionId);
    api.clock.advance(WEEK);
    await person.client.signIn(person.email);
    const list = (status: string) => person.client.get(`/v1/service/delegations/requests?status=${status}`);
    expect((await list("pending")).body.items).toEqual([]);
    expect((await list("expired")).body.items).toMatchObject([{ request_id: id, status: "expired" }]);
  });

  test("appears as expired in answers, which do not wait for a decision that has locked the request", async () => {
    const { person, platform } = await ready();
    const id = await selfRequest(person, platform.connectionId);
    api.clock.advance(WEEK);
    await person.client.signIn(person.email);
    await api.db.transaction(async (tx) => {
      await tx("delegation_requests").where({ request_id: id }).forUpdate();
      const shown = await person.client.get(`/v1/service/delegations/requests/${id}`);
      expect(shown.body.status).toBe("expired");
    });
  });
});

describe("listing requests", () => {
  test("returns the account's own requests, newest first, page by page, and filters them", async () => {
    const { person, platform, agentId } = await ready();
    await delegated(api);
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      api.clock.advance(1);
      ids.unshift(await selfRequest(person, platform.connectionId));
    }
    const list = (query: string) => person.client.get(`/v1/service/delegations/requests?${query}`);
    const idsOf = (body: Record<string, unknown>) =>
      (body.items as { request_id: string }[]).map(({ request_id }) => request_id);
    const first = await list("limit=3");
    const second = await list(`limit=3&cursor=${String(first.body.next_cursor)}`);
    expect([idsOf(first.body), idsOf(second.body)]).toEqual([ids.slice(0, 3), ids.slice(3)]);
    expect(second.body.next_cursor).toBeNull();
    await approve(person, ids[1]!, ["data:read"]);
    expect(idsOf((await list("status=approved")).body)).toEqual([ids[1]]);
    expect(idsOf((await list(`connection_id=${platform.connectionId}&agent_id=${agentId}`)).body)).toEqual(
      ids,
    );
    expect(idsOf((await list(`connection_id=${crypto.randomUUID()}`)).body)).toEqual([]);
    expect(idsOf((await list("agent_id=none")).body)).toEqual([]);
    for (const wrong of ["status=new", "connection_id=x", "limit=0", "limit=101", "cursor=x"]) {
      expect(errorCode(await list(wrong))).toBe("invalid_request");
    }
  });

  test("returns no request of a different account", async () => {
    const { requestId } = await delegated(api);
    const { client } = await api.person();
    for (const id of [requestId, `req-${crypto.randomUUID()}`, "nonsense"]) {
      const answer = await client.get(`/v1/service/delegations/requests/${id}`);
      expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    }
    expect((await client.get("/v1/service/delegations/requests")).body.items).toEqual([]);
  });
});

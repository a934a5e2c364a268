import { describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { runningApi } from "../../support/api.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { approve, createAgent, errorCode, registerPlatform } from "../../support/platform_world.ts";
import { connect, publisher } from "../../support/two_companies.ts";

const api = runningApi();

type Keyed = { connectionId: string; apiKey: string };

const pathOf = ({ connectionId }: { connectionId: string }) =>
  `/v1/service/connections/${connectionId}/delegation-requests`;
const keyed = ({ apiKey }: Pick<Keyed, "apiKey">) => ({ headers: { "x-service-api-key": apiKey } });

/** Requests a delegation with a connection's API key. */
const ask = (connection: Keyed, body: object, key: Pick<Keyed, "apiKey"> = connection) =>
  api.client().post(pathOf(connection), body, keyed(key));

async function customer() {
  const made = await connect(api, await publisher(api));
  return { ...made, agentId: await createAgent(api.client(), made) };
}

async function ownConnection() {
  const person = await api.person();
  const platform = await registerPlatform(person);
  return { person, ...platform, agentId: await createAgent(api.client(), platform) };
}

/** A limit that makes a request different from the others. */
const atMost = (max_amount: number) => ({
  constraints: [{ type: "max_amount", currency: "EUR", max_amount }],
});

const rowOf = (requestId: unknown) =>
  api
    .db("delegation_requests")
    .where({ request_id: String(requestId) })
    .first();

describe("a request with an API key", () => {
  test.each([
    ["a customer's connection", customer],
    ["an own connection", ownConnection],
  ])("waits for a person at %s, and its approval lends the authority", async (_, world) => {
    const made = await world();
    const fields = { agent_id: made.agentId, requested_scope: ["data:read"], purpose: "Read the orders" };
    const asked = await ask(made, fields);
    expect([asked.status, asked.body]).toEqual([
      201,
      {
        request_id: expect.stringMatching(/^req-/),
        status: "pending",
        agent_id: made.agentId,
        requested_scope: ["data:read"],
        console: `http://127.0.0.1/console/for/${made.person.accountId}/requests/${asked.body.request_id}`,
      },
    ]);
    expect((await ask(made, fields)).body.request_id).toBe(asked.body.request_id);
    const requestId = String(asked.body.request_id);
    expect(await rowOf(requestId)).toMatchObject({
      account_id: made.person.accountId,
      connection_id: made.connectionId,
      requested_by: null,
      refusal: null,
      purpose: "Read the orders",
    });
    const read = () => api.client().get(`/v1/service/delegations/requests/${requestId}`, keyed(made));
    expect((await read()).body).toMatchObject({ status: "pending", cert_id: null });
    expect((await approve(made.person, requestId, ["data:read"])).status).toBe(200);
    expect((await read()).body).toMatchObject({ status: "approved", cert_id: expect.any(String) });
  });

  test("cannot exceed what the customer chose, or name another connection's agent", async () => {
    const made = await connect(api, await publisher(api), { scopes: ["data:read"] });
    const agentId = await createAgent(api.client(), made);
    const other = await customer();
    const codes = await Promise.all([
      ask(made, { agent_id: agentId, requested_scope: ["data:share"] }),
      ask(made, { agent_id: other.agentId, requested_scope: ["data:read"] }),
      ask(other, { agent_id: other.agentId }, made),
      ask(made, { requested_scope: ["data:read"] }),
    ]);
    expect(codes.map((answer) => [answer.status, errorCode(answer)])).toEqual([
      [400, "ceiling_exceeded"],
      [404, "not_found"],
      [404, "not_found"],
      [400, "invalid_request"],
    ]);
    expect(await api.db("delegation_requests").where({ connection_id: made.connectionId })).toEqual([]);
  });

  test("needs a full key", async () => {
    const made = await ownConnection();
    for (const key of [{ role: "agent", agent_id: made.agentId }, { role: "verify" }]) {
      const { body } = await createKey(api, made, key);
      const asked = await ask(made, { agent_id: made.agentId }, { apiKey: String(body.api_key) });
      expect([asked.status, errorCode(asked)]).toEqual([403, "key_not_allowed"]);
    }
  });

  test("counts as one of the five that an agent may have pending, whoever files the other ones", async () => {
    const made = await customer();
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, place) =>
        ask(made, { agent_id: made.agentId, requested_scope: ["data:read"], ...atMost(place + 1) }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 201, 201, 409, 409, 409]);
    const [refused] = answers.filter(({ status }) => status === 409);
    expect(errorCode(refused as (typeof answers)[0])).toBe("request_limit");
  });

  test("cannot be repeated for an hour after a person denied it", async () => {
    const made = await customer();
    const fields = { agent_id: made.agentId, requested_scope: ["data:read"] };
    const { body } = await ask(made, fields);
    await made.person.client.post(`/v1/service/delegations/requests/${body.request_id}/deny`);
    const again = await ask(made, fields);
    expect([again.status, errorCode(again)]).toEqual([429, "denied_recently"]);
    const other = await ask(made, { ...fields, requested_scope: ["data:share"] });
    expect(other.status).toBe(201);
    await api
      .db("delegation_requests")
      .where({ request_id: String(body.request_id) })
      .update({ decided_at: addSeconds(api.clock.now(), -3_601) });
    expect((await ask(made, fields)).status).toBe(201);
  });

  test("exceeds the limit at the 21st of an agent in a day, without counting refused ones", async () => {
    const made = await customer();
    const fields = { agent_id: made.agentId, requested_scope: ["data:read"] };
    const withdraw = () =>
      api.db("delegation_requests").where({ agent_id: made.agentId }).update({ status: "withdrawn" });
    const wrong = () => ask(made, { ...fields, requested_scope: ["custom:never:allowed"] });
    expect(errorCode(await wrong())).toBe("ceiling_exceeded");
    for (let count = 0; count < 20; count++) {
      expect((await ask(made, fields)).status).toBe(201);
      await withdraw();
    }
    const next = await ask(made, fields);
    expect([next.status, errorCode(next)]).toEqual([429, "rate_limited"]);
    expect(Number(next.headers.get("retry-after"))).toBeGreaterThan(80_000);
  });

  test("counts once, however often it is repeated", async () => {
    const made = await customer();
    const repeat = () => ask(made, { agent_id: made.agentId, requested_scope: ["data:read"] });
    const first = await repeat();
    for (let count = 0; count < 21; count++) {
      expect((await repeat()).body.request_id).toBe(first.body.request_id);
    }
  });

  test("files one request for calls with the same idempotency key", async () => {
    const made = await customer();
    const send = () =>
      api
        .client()
        .post(
          pathOf(made),
          { agent_id: made.agentId, requested_scope: ["data:read"] },
          { headers: { "x-service-api-key": made.apiKey, "idempotency-key": "first-order" } },
        );
    const answers = [await send(), await send()];
    expect(new Set(answers.map(({ body }) => body.request_id)).size).toBe(1);
  });

  test("fails while the platform is suspended, and after the connection ended", async () => {
    const owner = await publisher(api);
    const made = await connect(api, owner);
    const fields = { agent_id: await createAgent(api.client(), made), requested_scope: ["data:read"] };
    const platform = { platform_id: owner.platform.platformId };
    await api.db("platforms").where(platform).update({ publish_state: "suspended" });
    const suspended = await ask(made, fields);
    expect([suspended.status, errorCode(suspended)]).toEqual([403, "forbidden"]);
    await api.db("platforms").where(platform).update({ publish_state: "published" });
    await made.person.client.call("DELETE", `/v1/service/connected-products/${made.connectionId}`);
    const ended = await ask(made, fields);
    expect([ended.status, errorCode(ended)]).toEqual([401, "invalid_api_key"]);
  });

  test("fails at an own connection of an organization that requires two people", async () => {
    const person = await api.person({ organization_name: "Mills" });
    const platform = await registerPlatform(person, {}, "/v1/service/platforms");
    const agentId = await createAgent(api.client(), platform);
    await person.client.call("PATCH", "/v1/service/organization", { body: { four_eyes: true } });
    const asked = await ask(platform, { agent_id: agentId });
    expect([asked.status, errorCode(asked)]).toEqual([403, "four_eyes_required"]);
  });
});

import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readSubjects } from "../../src/accounts/mailings/subjects.ts";
import { stepEnds } from "../../src/platforms/connections/end_connections.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { copyRequest, createAgent, errorCode, registerPlatform } from "../support/platform_world.ts";
import { until } from "../support/process.ts";
import {
  ask,
  type Customer,
  connect,
  endFor,
  lend,
  type Publisher,
  publisher,
} from "../support/two_companies.ts";

let api: TestApi;
let shop: Publisher;

beforeAll(async () => {
  api = await startApi();
  shop = await publisher(api);
});
afterAll(() => api.stop());

const self = async (apiKey: string) =>
  api.client().get("/v1/service/keys/self", { headers: { "x-service-api-key": apiKey } });
const asPublisher = () => ({ account_id: shop.person.accountId, product_id: shop.platform.platformId });
const rowOf = async (connectionId: string) =>
  (await api.db("connections").where({ connection_id: connectionId }).first())!;

describe("a customer connection", () => {
  test("belongs to the platform's account, and names the customer in connection.created", async () => {
    const customer = await connect(api, shop, { scopes: ["data:*"] });
    const { accountId } = shop.person;
    expect(customer).toMatchObject({ isNew: true, retired: [] });
    expect(customer.allowedScopes).toContain("data:read");
    expect(await rowOf(customer.connectionId)).toMatchObject({
      account_id: accountId,
      platform_id: null,
      product_id: shop.platform.platformId,
      customer_account_id: customer.person.accountId,
      callback_url: null,
      webhook_secret_sealed: null,
    });
    expect(await api.events(customer.connectionId)).toEqual([
      {
        event: "connection.created",
        connection_id: customer.connectionId,
        platform_id: shop.platform.platformId,
        org_id: customer.person.accountId,
        org_name: "Customer & Sons",
        allowed_scopes: customer.allowedScopes,
        callback_url: null,
      },
    ]);
    expect((await self(customer.apiKey)).body).toMatchObject({
      role: "full",
      connection_id: customer.connectionId,
      workspace_id: accountId,
    });
  });

  test("keeps its id, its agents and the former key for a day if the customer connects again", async () => {
    const first = await connect(api, shop);
    const { agentId } = await lend(api, first);
    const again = await connect(api, shop, { person: first.person, scopes: ["data:share"] });
    expect(again).toMatchObject({ connectionId: first.connectionId, isNew: false });
    expect(again.retired).toEqual([first.apiKeyPrefix]);
    const rotated = { event: "connection.key_rotated", previous_prefix: first.apiKeyPrefix };
    expect((await api.events(first.connectionId)).slice(-2)).toEqual([
      { ...rotated, connection_id: first.connectionId, api_key_prefix: again.apiKeyPrefix },
      {
        event: "connection.changed",
        connection_id: first.connectionId,
        org_id: first.person.accountId,
        allowed_scopes: ["data:share"],
      },
    ]);
    const same = await connect(api, shop, { person: first.person, scopes: ["data:share"] });
    expect((await api.events(first.connectionId)).at(-1)).toMatchObject({
      ...{ event: "connection.key_rotated", api_key_prefix: same.apiKeyPrefix },
    });
    expect((await self(first.apiKey)).status).toBe(200);
    expect((await self(again.apiKey)).status).toBe(200);
    expect((await self(same.apiKey)).status).toBe(200);
    const keys = await api.db("api_keys").where({ key_prefix: first.apiKeyPrefix });
    expect(keys[0]!.retires_at).toEqual(new Date(api.clock.now().getTime() + 86_400_000));
    expect(await api.db("agents").where({ agent_id: agentId })).toMatchObject([{ disabled_at: null }]);
  });

  test("narrows certificates when the customer chooses less, and revives nothing afterwards", async () => {
    const first = await connect(api, shop);
    const { certId } = await lend(api, first, { scope: ["data:read", "data:share"] });
    const ceiling = async () =>
      (await api.db("certificates").where({ cert_id: certId }).first())!.restricted_ceiling;
    expect(await ceiling()).toBeNull();
    await connect(api, shop, { person: first.person, scopes: ["data:share"] });
    expect(await ceiling()).toEqual(["data:share"]);
    await connect(api, shop, { person: first.person, scopes: ["data:read", "data:share"] });
    await connect(api, shop, { person: first.person, scopes: ["data:read"] });
    expect(await ceiling()).toEqual([]);
  });

  test("stays single when 20 exchanges create it at the same time", async () => {
    const person = await api.person();
    const made = await Promise.all(Array.from({ length: 20 }, () => connect(api, shop, { person })));
    expect(new Set(made.map(({ connectionId }) => connectionId)).size).toBe(1);
    expect(made.filter(({ isNew }) => isNew)).toHaveLength(1);
  });

  test("refuses scopes above the platform's ceiling, none at all, and a removed platform", async () => {
    const person = await api.person();
    const attempt = (scopes: string[], at = shop) =>
      connect(api, at, { person, scopes }).catch((error: { code?: string }) => error.code);
    expect(await attempt(["payments:send", "data:delete"])).toBe("ceiling_exceeded");
    expect(await attempt([])).toBe("invalid_scopes");
    const closed = await publisher(api);
    const path = `/v1/service/connections/${closed.platform.connectionId}`;
    expect((await closed.person.client.call("DELETE", path)).status).toBe(200);
    expect(await attempt(["data:read"], closed)).toBe("not_found");
    expect(await api.db("connections").where({ customer_account_id: person.accountId })).toEqual([]);
  });

  test("shows its agents, requests and certificates to the customer, and none of them to the publisher", async () => {
    const customer = await connect(api, shop);
    const { agentId, certId } = await lend(api, customer);
    const seenBy = async ({ client }: Person) => {
      const [agents, certificates] = await Promise.all([
        client.get("/v1/service/agents?limit=100"),
        client.get("/v1/service/delegations?limit=100&q=Shop"),
      ]);
      const list = ({ body }: typeof agents) => body.items as Record<string, string>[];
      return {
        agent: list(agents).some(({ agent_id }) => agent_id === agentId),
        certificate: list(certificates).some(({ cert_id }) => cert_id === certId),
      };
    };
    expect(await seenBy(customer.person)).toEqual({ agent: true, certificate: true });
    expect(await seenBy(shop.person)).toEqual({ agent: false, certificate: false });
  });

  test("has at most 50 pending requests, which leave the customer's own requests alone", async () => {
    const customer = await connect(api, shop);
    const agentId = await createAgent(api.client(), customer);
    await copyRequest(api.db, await ask(api, customer, { agentId }), 49);
    const more = ask(api, customer, { agentId });
    await expect(more).rejects.toMatchObject({ code: "request_limit" });
    const own = await registerPlatform(customer.person);
    await createAgent(api.client(), own);
    const request = { connection_id: own.connectionId };
    expect((await customer.person.client.post("/v1/service/delegations/self-request", request)).status).toBe(
      201,
    );
  });

  test("names the publisher of a request, with its domain only while published", async () => {
    const customer = await connect(api, shop);
    const id = await ask(api, customer, { agentId: await createAgent(api.client(), customer) });
    const platform = api.db("platforms").where({ platform_id: shop.platform.platformId });
    const shown = async () =>
      (await customer.person.client.get(`/v1/service/delegations/requests/${id}`)).body.publisher;
    const mailed = async () => {
      const { accountId } = customer.person;
      const mail = { person_id: accountId, account_id: accountId, request_ids: [id], omitted_since: null };
      const waiting = { ...mail, kind: "request_waits" } as Parameters<typeof readSubjects>[1];
      const { subjects } = await readSubjects(api.db, waiting, api.clock.now());
      return subjects.map(({ publisher_name, publisher_domain }) => [publisher_name, publisher_domain]);
    };
    for (const [publish_state, domain] of [
      ["published", "shop.example.com"],
      ["suspended", null],
      ["draft", null],
    ] as const) {
      await platform.clone().update({ publish_state, published_domain: "shop.example.com" });
      expect(await shown()).toEqual({ name: "Shop Ltd", domain });
      expect(await mailed()).toEqual([["Shop Ltd", domain]]);
    }
    await platform.clone().update({ published_domain: null });
  });

  test("has at most 100 live agents", async () => {
    const customer = await connect(api, shop);
    const agentId = await createAgent(api.client(), customer);
    const agent = (await api.db("agents").where({ agent_id: agentId }).first())!;
    const more = Array.from({ length: 98 }, () => ({
      ...agent,
      agent_id: randomBytes(16).toString("hex"),
      vault_key_id: null,
      public_key: JSON.stringify(agent.public_key) as never,
      attestation: null,
    }));
    await api.db.batchInsert("agents", more);
    await createAgent(api.client(), customer);
    await expect(createAgent(api.client(), customer)).rejects.toThrow("rate_limited");
    await api.db("agents").where({ agent_id: agentId }).update({ disabled_at: api.clock.now() });
    await createAgent(api.client(), customer);
  });

  test("ends when a former version removes the platform, which knows no customers", async () => {
    const other = await publisher(api);
    const customer = await connect(api, other);
    const { platformId } = other.platform;
    await api.db("platforms").where({ platform_id: platformId }).update({ removed_at: api.clock.now() });
    await expect.poll(async () => (await self(customer.apiKey)).status).toBe(401);
    const row = await rowOf(customer.connectionId);
    expect(row.removed_at).toEqual(api.clock.now());
    await stepEnds({ database: api.db, secretBox: api.secretBox, log: api.log });
    expect((await api.events(customer.connectionId)).at(-1)).toMatchObject({ event: "connection.removed" });
  });

  test("ends for either side with its keys, agents, requests and certificates", async () => {
    for (const side of ["publisher", "customer"] as const) {
      const customer = await connect(api, shop);
      const { agentId, certId } = await lend(api, customer);
      const requestId = await ask(api, customer, { agentId });
      const party = side === "publisher" ? asPublisher() : undefined;
      const endedAt = await endFor(api, customer, party);
      expect(await endFor(api, customer, party)).toEqual(endedAt);
      // Another process ended it, so this one hears of it.
      await until("the key has ended", async () => (await self(customer.apiKey)).status === 401);
      expect(await api.db("agents").where({ agent_id: agentId })).toMatchObject([{ disabled_at: endedAt }]);
      expect(await api.db("certificates").where({ cert_id: certId })).toMatchObject([{ status: "revoked" }]);
      expect(await api.db("delegation_requests").where({ request_id: requestId })).toMatchObject([
        { status: "withdrawn" },
      ]);
      expect((await api.events(customer.connectionId)).slice(-2)).toMatchObject([
        { event: "delegation.revoked", cert_id: certId, org_id: customer.person.accountId },
        { event: "connection.removed", org_id: customer.person.accountId },
      ]);
      const next = await connect(api, shop, { person: customer.person });
      expect(next.connectionId).not.toBe(customer.connectionId);
    }
  });

  test("does not end for a third account, nor as an own connection", async () => {
    const customer = await connect(api, shop);
    const third = await api.person();
    const own = { ...customer, connectionId: shop.platform.connectionId };
    const another = await publisher(api);
    for (const [connection, party] of [
      [customer, { customer_account_id: third.accountId }],
      [customer, { customer_account_id: shop.person.accountId }],
      [customer, { ...asPublisher(), account_id: third.accountId }],
      [customer, { ...asPublisher(), account_id: customer.person.accountId }],
      [customer, { ...asPublisher(), product_id: another.platform.platformId }],
      [own, asPublisher()],
    ] as const) {
      await expect(endFor(api, connection, party)).rejects.toMatchObject({ code: "not_found" });
    }
    expect((await self(customer.apiKey)).status).toBe(200);
  });

  test("ends with its platform", async () => {
    const other = await publisher(api);
    const [first, second] = [await connect(api, other), await connect(api, other)];
    const { certId } = await lend(api, first);
    const removed = async ({ connectionId }: Customer) => (await rowOf(connectionId)).removed_at !== null;
    await other.person.client.call("DELETE", `/v1/service/connections/${other.platform.connectionId}`);
    expect([await removed(first), await removed(second)]).toEqual([true, true]);
    expect((await self(first.apiKey)).status).toBe(401);
    expect(await api.db("certificates").where({ cert_id: certId })).toMatchObject([{ status: "revoked" }]);
  });

  test("follows the platform's ceiling when it shrinks", async () => {
    const other = await publisher(api);
    const customer = await connect(api, other);
    const { agentId, certId } = await lend(api, customer, { scope: ["data:read", "data:share"] });
    const path = `/v1/service/platforms/${other.platform.platformId}`;
    const answer = await other.person.client.call("PATCH", path, {
      body: { default_allowed_scopes: ["data:read"] },
    });
    expect(answer.status).toBe(200);
    const rows = await api.db("certificates").where({ cert_id: certId });
    expect(rows).toMatchObject([{ restricted_ceiling: ["data:read"] }]);
    const wide = ask(api, customer, { agentId, scope: ["data:share"] });
    await expect(wide).rejects.toMatchObject({ code: "ceiling_exceeded" });
    const requestId = await ask(api, customer, { agentId });
    const requests = await api.db("delegation_requests").where({ request_id: requestId });
    expect(requests).toMatchObject([{ requested_scope: ["data:read"] }]);
  });

  test("answers no call of the publisher's session that names its id", async () => {
    const { connectionId } = await connect(api, shop);
    const { client } = shop.person;
    const path = `/v1/service/connections/${connectionId}`;
    for (const answer of [
      await client.get(path),
      await client.call("PATCH", path, { body: { registry_answers: true } }),
      await client.post(`${path}/rotate-key`, {}),
      await client.get(`${path}/agents`),
      await client.call("DELETE", path),
    ]) {
      expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    }
  });
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { createKey } from "../support/narrow_keys.ts";
import { errorCode } from "../support/platform_world.ts";
import { ask, type Customer, connect, lend, type Publisher, publisher } from "../support/two_companies.ts";

let api: TestApi;
let shop: Publisher;
beforeAll(async () => {
  api = await startApi();
  shop = await publisher(api);
});
afterAll(() => api.stop());

const pathOf = ({ platform }: Pick<Publisher, "platform">, customer?: Customer) =>
  `/v1/service/platforms/${platform.platformId}/customers${customer ? `/${customer.connectionId}` : ""}`;
const withKey = (apiKey: string) => ({ headers: { "x-service-api-key": apiKey } });
const self = (apiKey: string) => api.client().get("/v1/service/keys/self", withKey(apiKey));

async function named(name: string, of = shop): Promise<Customer> {
  const customer = await connect(api, of);
  const row = api.db("connections").where({ connection_id: customer.connectionId });
  await row.update({ customer_name: name });
  return customer;
}

describe("the customers of a platform", () => {
  test("show the publisher who connected, by the name that the customer chose, and no address", async () => {
    const customer = await connect(api, shop);
    await lend(api, customer);
    const { status, text, body } = await shop.person.client.get(pathOf(shop, customer));
    expect([status, body]).toEqual([
      200,
      {
        connection_id: customer.connectionId,
        org_id: customer.person.accountId,
        org_name: "Customer & Sons",
        allowed_scopes: ["data:read", "data:share"],
        ...{ agents: 1, delegations: 1 },
        created_at: expect.any(String),
        last_used_at: null,
        removed_at: null,
      },
    ]);
    expect(text).not.toContain(customer.person.email);
  });

  test("appear by pages, newest first, and match a part of the name or an org_id", async () => {
    const own = await publisher(api);
    const names = ["Bakers 100 %", "bakers_too", "Analysts"];
    const made: Customer[] = [];
    for (const name of names) {
      api.clock.advance(1);
      made.push(await named(name, own));
    }
    const list = async (query: string) =>
      (await own.person.client.get(`${pathOf(own)}?${query}`)).body as {
        items: { org_name: string }[];
        next_cursor: string | null;
      };
    const namesOf = async (query: string) => (await list(query)).items.map(({ org_name }) => org_name);
    const first = await list("limit=2");
    expect(first.items.map(({ org_name }) => org_name)).toEqual(["Analysts", "bakers_too"]);
    expect(await namesOf(`limit=2&cursor=${first.next_cursor}`)).toEqual(["Bakers 100 %"]);
    expect(await namesOf("q=BAKERS")).toEqual(["bakers_too", "Bakers 100 %"]);
    expect(await namesOf("q=%25")).toEqual(["Bakers 100 %"]);
    expect(await namesOf("q=_")).toEqual(["bakers_too"]);
    expect(await namesOf(`org_id=${made[2]?.person.accountId}`)).toEqual(["Analysts"]);
    expect(await namesOf("org_id=nobody")).toEqual([]);
    expect(await namesOf("state=ended")).toEqual([]);
  });

  test("can be read with the API key of the own connection only", async () => {
    const customer = await connect(api, shop);
    const other = await connect(api, shop);
    const another = await publisher(api);
    for (const path of [pathOf(shop), pathOf(shop, customer)]) {
      const by = async (apiKey: string) => (await api.client().get(path, withKey(apiKey))).status;
      expect(await by(shop.platform.apiKey)).toBe(200);
      for (const key of [customer.apiKey, other.apiKey, another.platform.apiKey]) {
        expect(await by(key)).toBe(404);
      }
    }
    const second = await publisher(api);
    expect((await shop.person.client.get(pathOf(second))).status).toBe(404);
  });

  test("cannot be changed with an API key", async () => {
    const customer = await connect(api, shop);
    const path = pathOf(shop, customer);
    const rotated = await api.client().post(`${path}/rotate-key`, undefined, withKey(shop.platform.apiKey));
    const ended = await api.client().call("DELETE", path, withKey(shop.platform.apiKey));
    expect([errorCode(rotated), errorCode(ended)]).toEqual(["auth_required", "auth_required"]);
    expect((await self(customer.apiKey)).status).toBe(200);
  });
});

describe("a publisher who replaces a customer's API key", () => {
  test("gets the new key once, and the former one lasts for the grace", async () => {
    const customer = await connect(api, shop);
    const path = `${pathOf(shop, customer)}/rotate-key`;
    const { status, body } = await shop.person.client.post(path, { grace_seconds: 60 });
    expect([status, body.previous_prefix]).toEqual([200, customer.apiKeyPrefix]);
    expect((await self(String(body.api_key))).body.connection_id).toBe(customer.connectionId);
    expect((await self(customer.apiKey)).status).toBe(200);
    api.clock.advance(61);
    expect((await self(customer.apiKey)).status).toBe(401);
    expect((await api.events(customer.connectionId)).map(({ event }) => event)).toEqual([
      "connection.created",
      "connection.key_rotated",
    ]);
  });

  test("can do so while the platform is suspended", async () => {
    const own = await publisher(api);
    const customer = await connect(api, own);
    const platform = { platform_id: own.platform.platformId };
    await api.db("platforms").where(platform).update({ publish_state: "suspended" });
    expect((await own.person.client.post(`${pathOf(own, customer)}/rotate-key`)).status).toBe(200);
    expect((await self(customer.apiKey)).status).toBe(401);
  });

  test("gets 404 after the connection has ended, and for the platform's own connection", async () => {
    const customer = await connect(api, shop);
    await customer.person.client.call("DELETE", `/v1/service/connected-products/${customer.connectionId}`);
    const own = { connectionId: shop.platform.connectionId } as Customer;
    for (const of of [customer, own]) {
      expect((await shop.person.client.post(`${pathOf(shop, of)}/rotate-key`)).status).toBe(404);
    }
  });
});

describe("agent keys and verify keys of a customer's connection", () => {
  const keysOf = ({ connectionId }: Pick<Customer, "connectionId">, prefix = "") =>
    `/v1/service/connections/${connectionId}/keys${prefix}`;
  const seen = (answer: HttpAnswer) => [answer.status, errorCode(answer)];

  async function withKeys(of = shop) {
    const customer = await connect(api, of);
    const { agentId } = await lend(api, customer);
    const made = async (wish: { role: string; agent_id?: string }) =>
      String((await createKey(api, customer, wish)).body.api_key);
    const [verify, agent] = [
      await made({ role: "verify" }),
      await made({ role: "agent", agent_id: agentId }),
    ];
    return { ...customer, agentId, verify, agent };
  }
  const prefixOf = (key: string) => key.slice(0, 13);

  test("appear to the publisher's people, who end them after the full key was replaced", async () => {
    const customer = await withKeys();
    const { client } = shop.person;
    await client.post(`${pathOf(shop, customer)}/rotate-key`);
    await connect(api, shop, { person: customer.person });
    const { status, body } = await client.get(keysOf(customer));
    expect(status).toBe(200);
    const narrow = (body.items as { role: string }[]).filter(({ role }) => role !== "full");
    const shown = { made_with: customer.apiKeyPrefix, valid_until: null };
    expect(narrow).toHaveLength(2);
    expect(narrow).toContainEqual(
      expect.objectContaining({ ...shown, role: "verify", api_key_prefix: prefixOf(customer.verify) }),
    );
    expect(narrow).toContainEqual(
      expect.objectContaining({ ...shown, role: "agent", agent_id: customer.agentId }),
    );
    for (const key of [customer.verify, customer.agent]) {
      expect((await self(key)).status).toBe(200);
      const path = keysOf(customer, `/${prefixOf(key)}`);
      const ended = await client.call("DELETE", path);
      expect(ended.status).toBe(200);
      expect((await client.call("DELETE", path)).body).toEqual(ended.body);
      expect((await self(key)).status).toBe(401);
      expect((await api.events(customer.connectionId)).at(-1)).toMatchObject({
        ...{ event: "connection.key_ended", api_key_prefix: prefixOf(key), ended_with: null },
      });
    }
    const { items } = (await client.get("/v1/service/organization/activity?operation=end_api_key")).body;
    expect((items as object[])[0]).toMatchObject({
      target: { platform_id: shop.platform.platformId, connection_id: customer.connectionId },
    });
    const acts = api.db("organization_activity").where({ operation: "end_api_key" });
    expect(await acts.where({ organization_id: customer.person.accountId })).toEqual([]);
  });

  test("can be ended while the platform is suspended, and until the connection ends", async () => {
    const own = await publisher(api);
    const customer = await withKeys(own);
    const { client } = own.person;
    const platform = { platform_id: own.platform.platformId };
    await api.db("platforms").where(platform).update({ publish_state: "suspended" });
    const path = keysOf(customer, `/${prefixOf(customer.verify)}`);
    expect((await client.call("DELETE", path)).status).toBe(200);
    await client.call("DELETE", pathOf(own, customer));
    expect(seen(await client.get(keysOf(customer)))).toEqual([404, "not_found"]);
    expect(seen(await client.call("DELETE", path))).toEqual([404, "not_found"]);
    expect((await self(customer.agent)).status).toBe(401);
  });

  test("exist neither for the customer, nor for other accounts, nor for other API keys of the platform", async () => {
    const [customer, other] = [await withKeys(), await withKeys()];
    const path = keysOf(customer, `/${prefixOf(customer.verify)}`);
    const stranger = await publisher(api);
    const { client } = customer.person;
    for (const person of [client, stranger.person.client]) {
      expect(seen(await person.get(keysOf(customer)))).toEqual([404, "not_found"]);
      expect(seen(await person.call("DELETE", path))).toEqual([404, "not_found"]);
    }
    for (const key of [shop.platform.apiKey, other.apiKey, stranger.platform.apiKey]) {
      expect(seen(await api.client().get(keysOf(customer), withKey(key)))).toEqual([404, "not_found"]);
      expect(seen(await api.client().call("DELETE", path, withKey(key)))).toEqual([404, "not_found"]);
    }
    const mixed = keysOf(other, `/${prefixOf(customer.verify)}`);
    expect(seen(await shop.person.client.call("DELETE", mixed))).toEqual([404, "not_found"]);
    const making = await shop.person.client.post(keysOf(customer), { role: "verify" });
    expect(seen(making)).toEqual([404, "not_found"]);
    expect((await self(customer.verify)).status).toBe(200);
  });

  test("end by owners and developers of the platform's account, and appear to all its members", async () => {
    const customer = await withKeys();
    const path = keysOf(customer, `/${prefixOf(customer.verify)}`);
    for (const [role, status] of [
      ["approver", 403],
      ["auditor", 403],
      ["developer", 200],
    ] as const) {
      const member = await addMember(api, shop.person.accountId, role);
      const acting = actingFor(member, shop.person.accountId);
      expect((await acting.get(keysOf(customer))).status).toBe(200);
      expect((await acting.delete(path)).status).toBe(status);
    }
  });
});

describe("a publisher who ends a customer's connection", () => {
  test("ends keys, delegations and requests, once, and still finds the customer among the ended", async () => {
    const customer = await connect(api, shop);
    const { certId, agentId } = await lend(api, customer);
    const waiting = await ask(api, customer, { agentId, scope: ["data:share"] });
    const path = pathOf(shop, customer);
    const first = await shop.person.client.call("DELETE", path);
    expect(first.status).toBe(200);
    expect((await shop.person.client.call("DELETE", path)).body).toEqual(first.body);
    expect((await self(customer.apiKey)).status).toBe(401);
    const { client } = customer.person;
    expect((await client.get(`/v1/service/delegations/${certId}`)).body.status).toBe("revoked");
    const request = await client.get(`/v1/service/delegations/requests/${waiting}`);
    expect(request.body.status).toBe("withdrawn");
    expect((await shop.person.client.get(path)).body.removed_at).toBe(first.body.removed_at);
    const ended = (await shop.person.client.get(`${pathOf(shop)}?state=ended`)).body.items as object[];
    expect(ended).toContainEqual(expect.objectContaining({ connection_id: customer.connectionId }));
  });

  test("must be an owner or a developer of the platform's account", async () => {
    const customer = await connect(api, shop);
    const stranger = await api.person();
    expect((await stranger.client.call("DELETE", pathOf(shop, customer))).status).toBe(404);
    expect((await customer.person.client.call("DELETE", pathOf(shop, customer))).status).toBe(404);
    const headers = { "x-service-account": shop.person.accountId };
    for (const [role, status] of [
      ["approver", 403],
      ["auditor", 403],
      ["developer", 200],
    ] as const) {
      const { client } = await addMember(api, shop.person.accountId, role);
      expect((await client.get(pathOf(shop, customer), { headers })).status).toBe(200);
      expect((await client.call("DELETE", pathOf(shop, customer), { headers })).status).toBe(status);
    }
  });
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";
import { connect, lend, publisher } from "../support/two_companies.ts";
import { connectScene } from "./scene.ts";

const PATH = "/v1/service/connected-products";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

async function connected() {
  const shop = await publisher(api);
  const customer = await connect(api, shop);
  return { shop, customer, path: `${PATH}/${customer.connectionId}` };
}

describe("the products of a customer", () => {
  test("show who publishes them, what they may be lent, and what lives", async () => {
    const { customer, shop, path } = await connected();
    await lend(api, customer);
    const { body } = await customer.person.client.get(PATH);
    expect(body).toMatchObject({
      items: [
        {
          connection_id: customer.connectionId,
          platform: { platform_id: shop.platform.platformId },
          publisher: { name: "Shop Ltd", domain: null },
          is_test: true,
          customer_name: "Customer & Sons",
          allowed_scopes: ["data:read", "data:share"],
          ...{ agents: 1, delegations: 1, last_used_at: null },
        },
      ],
      next_cursor: null,
    });
    expect((await customer.person.client.get(path)).body.consent).toBeNull();
    expect((await shop.person.client.get(PATH)).body.items).toEqual([]);
  });

  test("keep the consent as the person read it, whatever the publisher changes later", async () => {
    const { product, code, exchange } = connectScene(api);
    const shop = await product();
    const person = await api.person();
    const { body } = await exchange(shop, await code(shop, person));
    await api.db("platforms").where({ platform_id: shop.platformId }).update({ name: "Bank" });
    const read = await person.client.get(`${PATH}/${body.connection_id}`);
    expect(read.body).toMatchObject({
      platform: { name: "Bank" },
      consent: {
        platform_name: "Shop",
        publisher: { name: "Shop Works", domain: shop.domain },
        scopes: ["data:read"],
        by: person.email,
      },
    });
  });

  test("show no verified domain while the platform is suspended, and are no tests then", async () => {
    const { product, code, exchange } = connectScene(api);
    const shop = await product();
    const person = await api.person();
    const { body } = await exchange(shop, await code(shop, person));
    const read = async () => (await person.client.get(`${PATH}/${body.connection_id}`)).body;
    expect(await read()).toMatchObject({ publisher: { domain: shop.domain }, is_test: false });
    await shop.owner.client.call("DELETE", `/v1/service/organization/domains/${shop.domain}`);
    expect(await read()).toMatchObject({
      publisher: { name: "Shop Works", domain: null },
      is_test: false,
      consent: { publisher: { domain: shop.domain } },
    });
  });

  test("can be narrowed, which ends authority at the same moment, and never widened", async () => {
    const { customer, path } = await connected();
    const { certId } = await lend(api, customer, { scope: ["data:read", "data:share"] });
    const narrow = (allowed_scopes: string[]) =>
      customer.person.client.call("PATCH", path, { body: { allowed_scopes } });
    const answer = await narrow(["data:read"]);
    expect([answer.status, answer.body.allowed_scopes]).toEqual([200, ["data:read"]]);
    expect(await api.db("certificates").where({ cert_id: certId }).pluck("restricted_ceiling")).toEqual([
      ["data:read"],
    ]);
    expect(errorCode(await narrow(["data:read", "data:share"]))).toBe("ceiling_widened");
    expect(errorCode(await narrow([]))).toBe("invalid_request");
    expect(errorCode(await narrow(["nothing"]))).toBe("invalid_scopes");
    expect((await customer.person.client.get(path)).body.allowed_scopes).toEqual(["data:read"]);
  });

  test("end for good, once, with their keys and certificates", async () => {
    const { customer, path } = await connected();
    const { certId } = await lend(api, customer);
    const first = await customer.person.client.call("DELETE", path);
    expect(first.status).toBe(200);
    expect(await customer.person.client.call("DELETE", path)).toMatchObject({
      status: 200,
      body: first.body,
    });
    expect(await api.db("certificates").where({ cert_id: certId }).pluck("status")).toEqual(["revoked"]);
    expect((await customer.person.client.get(path)).status).toBe(404);
    const headers = { "x-service-api-key": customer.apiKey };
    expect((await api.client().get("/v1/service/keys/self", { headers })).status).toBe(401);
  });

  test("end together, also those that the worker ends later, and only those of this customer", async () => {
    const [{ customer, shop }, other] = [await connected(), await connected()];
    const ids = [customer.connectionId];
    for (let count = 0; count < 21; count++) {
      ids.push((await connect(api, await publisher(api), { person: customer.person })).connectionId);
    }
    const stranger = await connect(api, shop);
    const ended = await customer.person.client.call("DELETE", PATH);
    expect([ended.status, ended.body]).toEqual([200, { ended: 22 }]);
    expect((await customer.person.client.get(PATH)).body.items).toEqual([]);
    const live = await api.db("connections").whereIn("connection_id", ids).whereNull("removed_at");
    expect(live).toEqual([]);
    const headers = { "x-service-api-key": customer.apiKey };
    expect((await api.client().get("/v1/service/keys/self", { headers })).status).toBe(401);
    expect((await customer.person.client.call("DELETE", PATH)).body).toEqual({ ended: 0 });
    for (const { person } of [stranger, other.customer]) {
      expect((await person.client.get(PATH)).body.items).toHaveLength(1);
    }
  });

  test("do not exist for others: another customer, the publisher, and a connection of one's own platform", async () => {
    const { customer, shop, path } = await connected();
    const other = await connect(api, shop);
    for (const { client } of [other.person, shop.person]) {
      expect((await client.get(path)).status).toBe(404);
      expect((await client.call("PATCH", path, { body: { allowed_scopes: ["data:read"] } })).status).toBe(
        404,
      );
      expect((await client.call("DELETE", path)).status).toBe(404);
    }
    expect((await shop.person.client.call("DELETE", `${PATH}/${shop.platform.connectionId}`)).status).toBe(
      404,
    );
    expect((await customer.person.client.get(path)).status).toBe(200);
  });

  test("obey owners and approvers only", async () => {
    const shop = await publisher(api);
    const owner = await api.person({ organization_name: "Bakers" });
    const { connectionId } = await connect(api, shop, { person: owner });
    const path = `${PATH}/${connectionId}`;
    const acting = { "x-service-account": owner.accountId };
    const developer = await addMember(api, owner.accountId, "developer");
    const approver = await addMember(api, owner.accountId, "approver");
    const call = ({ client }: typeof owner, method: string, body?: object) =>
      client.call(method, path, { headers: acting, ...(body && { body }) });
    expect((await call(developer, "GET")).status).toBe(200);
    expect((await call(developer, "PATCH", { allowed_scopes: ["data:read"] })).status).toBe(403);
    expect((await call(developer, "DELETE")).status).toBe(403);
    const all = await developer.client.call("DELETE", PATH, { headers: acting });
    expect([all.status, errorCode(all)]).toEqual([403, "forbidden"]);
    expect((await call(approver, "PATCH", { allowed_scopes: ["data:read"] })).status).toBe(200);
    expect((await call(approver, "DELETE")).status).toBe(200);
  });
});

import { describe, expect, test } from "vitest";
import { deleteAccount } from "../support/account_codes.ts";
import { runningApi } from "../support/api.ts";
import type { HttpClient } from "../support/http.ts";
import { connectScene } from "./scene.ts";

const api = runningApi();

type Entry = { operation: string; target: Record<string, string>; actor: unknown };

/** Returns an account's acts about customer connections, oldest first, and the names in them. */
async function actsOf(client: HttpClient) {
  const { body } = await client.get("/v1/service/organization/activity?limit=100");
  const operations = ["oauth_token", "narrow_connected_product", "end_connected_product", "remove_customer"];
  const items = (body.items as Entry[]).filter(({ operation }) => operations.includes(operation));
  return {
    acts: items.reverse().map(({ operation, target, actor }) => [operation, target, actor]),
    names: body.names,
    actors: body.actors,
  };
}

async function connected() {
  const { product, code, exchange } = connectScene(api);
  const [shop, person] = [await product(), await api.person()];
  const scopes = ["data:read", "data:share"];
  const { body } = await exchange(shop, await code(shop, person, { scopes }));
  return { shop, person, connectionId: String(body.connection_id) };
}

describe("the activity of both parties of a connection", () => {
  test("names the person who connected only to the customer", async () => {
    const { shop, person, connectionId } = await connected();
    const target = { connection_id: connectionId };
    const own = await actsOf(person.client);
    expect(own.acts).toEqual([
      ["oauth_token", target, { account_id: person.accountId, email: person.email, role: "owner" }],
    ]);
    expect(own.names).toMatchObject({ [connectionId]: expect.any(String) });
    const theirs = await actsOf(shop.owner.client);
    expect(theirs.acts).toEqual([["oauth_token", { ...target, platform_id: shop.platformId }, null]]);
    expect(theirs.names).toMatchObject({ [connectionId]: "Ada Lovelace" });
    expect(JSON.stringify(theirs)).not.toContain(person.email);
    expect(theirs.actors).not.toContainEqual({ account_id: null, email: null });
  });

  test("tells the publisher once that the customer narrowed the connection", async () => {
    const { shop, person, connectionId } = await connected();
    const path = `/v1/service/connected-products/${connectionId}`;
    const narrow = () => person.client.call("PATCH", path, { body: { allowed_scopes: ["data:share"] } });
    expect([(await narrow()).status, (await narrow()).status]).toEqual([200, 200]);
    const target = { platform_id: shop.platformId, connection_id: connectionId };
    expect((await actsOf(shop.owner.client)).acts.slice(1)).toEqual([
      ["narrow_connected_product", target, null],
    ]);
  });

  test("tells the publisher that the customer ended the connection", async () => {
    const { shop, person, connectionId } = await connected();
    const end = () => person.client.call("DELETE", `/v1/service/connected-products/${connectionId}`);
    expect([(await end()).status, (await end()).status]).toEqual([200, 200]);
    const target = { platform_id: shop.platformId, connection_id: connectionId };
    expect((await actsOf(shop.owner.client)).acts.slice(1)).toEqual([
      ["end_connected_product", target, null],
    ]);
  });

  test("tells the customer that the publisher ended the connection", async () => {
    const { shop, person, connectionId } = await connected();
    const path = `/v1/service/platforms/${shop.platformId}/customers/${connectionId}`;
    expect((await shop.owner.client.call("DELETE", path)).status).toBe(200);
    expect((await actsOf(person.client)).acts.slice(1)).toEqual([
      ["remove_customer", { connection_id: connectionId }, null],
    ]);
  });

  test("tells the customer that the platform was removed, and the publisher that the account was deleted", async () => {
    const [removed, deleted] = [await connected(), await connected()];
    const own = `/v1/service/connections/${removed.shop.connectionId}`;
    expect((await removed.shop.owner.client.call("DELETE", own)).status).toBe(200);
    expect((await actsOf(removed.person.client)).acts.slice(1)).toEqual([
      ["remove_customer", { connection_id: removed.connectionId }, null],
    ]);
    expect((await deleteAccount(api, deleted.person)).status).toBe(200);
    const target = { platform_id: deleted.shop.platformId, connection_id: deleted.connectionId };
    expect((await actsOf(deleted.shop.owner.client)).acts.slice(1)).toEqual([
      ["end_connected_product", target, null],
    ]);
  });

  test("shows on the console who did what, without an address of the other party", async () => {
    const { shop, person, connectionId } = await connected();
    const page = await shop.owner.client.get("/console/activity");
    expect(page.text).toContain("A customer connected");
    expect(page.text).toContain(`/platforms/${shop.platformId}/customers/${connectionId}`);
    expect(page.text).not.toContain(person.email);
    const own = await person.client.get("/console/activity");
    expect(own.text).toContain("Connected a product");
    expect(own.text).toContain(`/products/${connectionId}`);
  });
});

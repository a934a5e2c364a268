import { afterAll, beforeAll, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { createAgent } from "../../support/platform_world.ts";
import { ask, connect, lend, publisher } from "../../support/two_companies.ts";
import { browserOf } from "../support/console.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

async function connected() {
  const customer = await connect(api, await publisher(api));
  await lend(api, customer);
  return { ...browserOf(api, customer.person.client), connectionId: customer.connectionId };
}

test("a customer sees the connected products, narrows one, and ends it", async () => {
  const { open, connectionId } = await connected();
  const list = await open("/console/products");
  expect(list.words).toMatch(/Shop – draft Shop Ltd 1 not yet/);
  const path = list.element("link", /<a href="([^"]*)"><bdi>Shop/);
  expect(path).toBe(`/console/products/${connectionId}`);
  const one = await open(path);
  expect(one.words).toContain("It sees you as Customer & Sons");
  const none = await one.send("narrow", { allowed_scopes: [] });
  expect([none.status, none.text]).toEqual([400, expect.stringContaining("narrow-allowed_scopes-fault")]);
  const narrowed = await one.send("narrow", { allowed_scopes: ["data:read"] });
  expect(narrowed.path).toBe(`${path}?notice=product_narrowed`);
  expect(narrowed.text).not.toContain("data:share");
  const ended = await narrowed.send("end");
  expect(ended.path).toBe("/console/products?notice=product_ended");
  expect(ended.words).toContain("The connection has ended.");
  expect(ended.words).toContain("No product is connected.");
  expect((await open(path)).status).toBe(404);
});

test("a link to the platform leads its customer to the product, and a stranger nowhere", async () => {
  const shop = await publisher(api);
  const customer = await connect(api, shop);
  const path = `/console/platforms/${shop.platform.platformId}`;
  const { open } = browserOf(api, customer.person.client);
  await connect(api, await publisher(api), { person: customer.person });
  expect((await open(path)).path).toBe(`/console/products/${customer.connectionId}`);
  const stranger = browserOf(api, (await api.person()).client);
  expect((await stranger.open(path)).status).toBe(404);
});

test("a customer ends all connections", async () => {
  const { open } = await connected();
  const ended = await (await open("/console/products")).send("end_all");
  expect(ended.path).toBe("/console/products?notice=products_ended");
  expect(ended.words).toContain("No product is connected.");
});

test("a request tells the customer that its publisher has proved no domain", async () => {
  const customer = await connect(api, await publisher(api));
  const id = await ask(api, customer, { agentId: await createAgent(api.client(), customer) });
  const page = await browserOf(api, customer.person.client).open(`/console/requests/${id}`);
  expect(page.words).toContain(
    "An account that calls itself “Shop Ltd” runs “Shop”. It has proved no domain. Approve only if you know it.",
  );
});

test("a publisher finds a customer, replaces the API key, and ends the connection", async () => {
  const shop = await publisher(api);
  const customer = await connect(api, shop);
  const { open } = browserOf(api, shop.person.client);
  const platform = await open(`/console/platforms/${shop.platform.platformId}`);
  const list = await open(platform.element("link", /<a href="([^"]*\/customers)"/));
  expect(list.words).toMatch(/Customer & Sons .* 0 not yet/);
  const path = list.element("link", /<a href="([^"]*)"><bdi>Customer/);
  const one = await open(path);
  expect(one.words).toContain(customer.connectionId);
  const rotated = await one.send("rotate", { grace_seconds: "0" });
  expect(rotated.words).toContain(`The former key, ${customer.apiKeyPrefix}…, has ended.`);
  const ended = await (await open(path)).send("end");
  expect(ended.path).toBe(`${list.path}?notice=customer_ended`);
  expect(ended.words).toContain("Nobody is connected.");
  const after = await open(path);
  expect(after.text).not.toContain('value="end"');
  expect((await open(`${list.path}?state=ended`)).words).toContain("Customer & Sons");
});

test("a publisher sees a customer's API keys, and ends one of an agent", async () => {
  const shop = await publisher(api);
  const customer = await connect(api, shop);
  const { agentId } = await lend(api, customer);
  const wish = { role: "agent", agent_id: agentId };
  const { api_key_prefix: prefix } = (await createKey(api, customer, wish)).body;
  const { open } = browserOf(api, shop.person.client);
  const path = `/console/platforms/${shop.platform.platformId}/customers/${customer.connectionId}`;
  const page = await open(path);
  expect(page.words).toMatch(new RegExp(`${customer.apiKeyPrefix}… everything on this connection`));
  expect(page.words).toMatch(new RegExp(`${prefix}… the agent ${agentId} .* with the key`));
  const ended = await page.send("end_key", { api_key_prefix: String(prefix) });
  expect(ended.path).toBe(`${path}?notice=key_ended`);
  expect(ended.text).not.toContain('value="end_key"');
  const activity = await open("/console/activity");
  expect(activity.text).toContain(`href="${path}"`);
  const theirs = browserOf(api, customer.person.client);
  expect((await theirs.open(`/console/products/${customer.connectionId}`)).text).not.toContain(prefix);
});

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { stepBacklogs } from "../../src/webhooks/endpoint.ts";
import { stepRecovery } from "../../src/webhooks/resend_and_recover.ts";
import { connectScene } from "../connect/scene.ts";
import { type Harness, startHarness } from "../events/support/harness.ts";
import { type Receiver, startReceiver } from "../events/support/receiver.ts";
import { virtualClock } from "../events/support/time.ts";
import { deleteAccount } from "../support/account_codes.ts";
import { startApi, type TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { errorCode } from "../support/platform_world.ts";
import { type Customer, connect, endFor, lend, type Publisher, publisher } from "../support/two_companies.ts";

let api: TestApi;
let harness: Harness;
let receiver: Receiver;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());
beforeEach(async () => {
  await api.db.raw("truncate outbox, inbox, event_secrets, webhook_endpoints cascade");
  const clock = virtualClock(api.clock.now());
  harness = await startHarness({ database: api.db }, { clock, secretBox: api.secretBox });
  receiver = await startReceiver(() => clock.now().getTime());
  return () => receiver.close();
});

/** Moves backlogs and delivers until nothing is left to do. */
async function settle(): Promise<void> {
  await harness.relay();
  while (await stepBacklogs({ database: api.db, clock: harness.clock }));
  await harness.deliver();
}

async function shopWith(fields: Record<string, unknown>): Promise<Publisher> {
  const shop = await publisher(api, fields);
  receiver.secret = String(shop.platform.answer.body.webhook_signing_secret);
  return shop;
}

const pathOf = ({ connectionId }: { connectionId: string }, path: string) =>
  `/v1/service/connections/${connectionId}/${path}`;
const call = ({ person, platform }: Publisher, method: string, path: string, body?: object) =>
  person.client.call(method, pathOf(platform, path), method === "GET" ? {} : { body: body ?? {} });
const items = ({ body }: HttpAnswer) => body.items as Record<string, unknown>[];
const received = () =>
  receiver.requests.map(({ event, faults }) => [event.event, event.connection_id, faults]);

const LEFT = ["delegation.revoked", "connection.removed"];

describe("the deliveries of customers' events", () => {
  test("appear at the platform's own connection, and nowhere for the customer", async () => {
    const shop = await shopWith({ callback_url: receiver.url });
    await settle();
    harness.clock.advance(1);
    const customer = await connect(api, shop);
    await settle();
    const list = async () => items(await shop.person.client.get(pathOf(shop.platform, "deliveries")));
    expect(await list()).toMatchObject([
      {
        ...{ event: "connection.created", state: "delivered" },
        ...{ connection_id: customer.connectionId, org_id: customer.person.accountId },
      },
      {
        ...{ event: "connection.created", state: "delivered" },
        ...{ connection_id: shop.platform.connectionId, org_id: shop.person.accountId },
      },
    ]);
    const [delivery] = await list();
    const one = await shop.person.client.get(pathOf(shop.platform, `deliveries/${delivery!.delivery_id}`));
    expect(one.body).toMatchObject({ connection_id: customer.connectionId, body_state: "secret" });
    for (const { person } of [customer, shop]) {
      for (const path of ["deliveries", `deliveries/${delivery!.delivery_id}`, "callback", "recoveries"]) {
        const answer = await person.client.get(pathOf(customer, path));
        expect([path, errorCode(answer)]).toEqual([path, "not_found"]);
      }
    }
    expect(errorCode(await customer.person.client.get(pathOf(shop.platform, "deliveries")))).toBe(
      "not_found",
    );
    const secret = receiver.requests.find(({ event }) => event.connection_id === customer.connectionId);
    expect(secret!.event).toMatchObject({
      api_key: customer.apiKey,
      webhook_signing_secret: receiver.secret,
    });
  });

  test("report what a customer does: connect, narrow, connect again and end", async () => {
    const { product, code, exchange } = connectScene(api);
    const shop = await product();
    receiver.secret = shop.webhookSecret;
    await settle();
    await shop.owner.client.call("PUT", pathOf(shop, "callback"), { body: { callback_url: receiver.url } });
    const person = await api.person();
    const again = async (scopes: string[]) =>
      (await exchange(shop, await code(shop, person, { scopes }))).body as Record<string, string>;
    const both = ["data:read", "data:share"];
    const { connection_id: connectionId, access_token: apiKey } = await again(both);
    await lend(api, { connectionId, apiKey, person } as Customer);
    const one = `/v1/service/connected-products/${connectionId}`;
    for (const allowed_scopes of [["data:read"], ["data:read"]]) {
      expect((await person.client.call("PATCH", one, { body: { allowed_scopes } })).status).toBe(200);
    }
    await again(["data:read"]);
    await again(both);
    const ended = await person.client.call("DELETE", one);
    await settle();
    const known = { connection_id: connectionId, org_id: person.accountId };
    expect(receiver.requests.map(({ event }) => event)).toMatchObject([
      { event: "connection.created", ...known, allowed_scopes: both, api_key: apiKey },
      { event: "delegation.approved", ...known },
      { event: "connection.changed", ...known, allowed_scopes: ["data:read"] },
      { event: "connection.key_rotated", connection_id: connectionId },
      { event: "connection.key_rotated", connection_id: connectionId },
      { event: "connection.changed", ...known, allowed_scopes: both },
      { event: "delegation.revoked", ...known },
      { event: "connection.removed", ...known, removed_at: ended.body.removed_at },
    ]);
    expect(receiver.requests.flatMap(({ faults }) => faults)).toEqual([]);
  });

  test("arrive again after a recovery, and after a resend of one", async () => {
    const shop = await shopWith({ callback_url: receiver.url });
    await settle();
    receiver.reply = () => 400;
    const customer = await connect(api, shop);
    await endFor(api, customer);
    await settle();
    const [removed] = items(await call(shop, "GET", "deliveries?event=connection.removed"));
    expect(removed).toMatchObject({ connection_id: customer.connectionId, state: "rejected" });
    receiver.reply = () => 204;
    receiver.requests.length = 0;
    const resent = await call(shop, "POST", `deliveries/${removed!.delivery_id}/resend`);
    expect(resent.body).toMatchObject({ connection_id: customer.connectionId, state: "pending" });
    await settle();
    expect(received()).toEqual([["connection.removed", customer.connectionId, []]]);
    harness.clock.advance(1);
    api.clock.advance(1);
    const recovery = { since: new Date(api.clock.now().getTime() - 3_600_000).toISOString() };
    expect((await call(shop, "POST", "deliveries/recover", recovery)).status).toBe(201);
    while (await stepRecovery({ database: api.db, clock: harness.clock }));
    await settle();
    expect(received().slice(1)).toEqual([["connection.created", customer.connectionId, []]]);
  });

  test("survive a pause and a missing URL while customers leave, in order", async () => {
    for (const callback_url of [receiver.url, null]) {
      receiver.requests.length = 0;
      const shop = await shopWith({ callback_url });
      await settle();
      receiver.requests.length = 0;
      if (callback_url !== null) expect((await call(shop, "POST", "callback/pause")).status).toBe(200);
      const customer = await connect(api, shop);
      await lend(api, customer);
      await endFor(api, customer);
      await settle();
      await settle();
      expect(receiver.requests).toEqual([]);
      const state = await shop.person.client.get(pathOf(shop.platform, "callback"));
      expect(state.body).toMatchObject({
        callback_state: callback_url === null ? "active" : "paused",
        held: 4,
      });
      if (callback_url !== null) await call(shop, "POST", "callback/resume");
      else await call(shop, "PUT", "callback", { callback_url: receiver.url });
      expect((await call(shop, "GET", "callback")).body).toMatchObject({ callback_state: "active", held: 0 });
      await settle();
      const kinds = ["connection.created", "delegation.approved", ...LEFT];
      expect(received()).toEqual(kinds.map((kind) => [kind, customer.connectionId, []]));
      expect(receiver.requests[0]!.event.api_key).toBe(customer.apiKey);
    }
  });

  test("arrive after a pause in which customers ended, deleted their account, and connected again", async () => {
    const shop = await shopWith({ callback_url: receiver.url });
    await settle();
    receiver.requests.length = 0;
    await call(shop, "POST", "callback/pause");
    const [ended, deleted, again] = [
      await connect(api, shop),
      await connect(api, shop),
      await connect(api, shop),
    ];
    for (const { connectionId, person } of [ended, again]) {
      const path = `/v1/service/connected-products/${connectionId}`;
      expect((await person.client.call("DELETE", path)).status).toBe(200);
    }
    expect((await deleteAccount(api, deleted.person)).status).toBe(200);
    const next = await connect(api, shop, { person: again.person });
    await settle();
    expect(receiver.requests).toEqual([]);
    await call(shop, "POST", "callback/resume");
    await settle();
    const of = (id: string) => received().filter(([, connectionId]) => connectionId === id);
    for (const { connectionId } of [ended, deleted, again]) {
      const kinds = ["connection.created", "connection.removed"];
      expect(of(connectionId)).toEqual(kinds.map((kind) => [kind, connectionId, []]));
    }
    expect(next.connectionId).not.toBe(again.connectionId);
    expect(of(next.connectionId)).toEqual([["connection.created", next.connectionId, []]]);
    const listed = items(await call(shop, "GET", "deliveries?event=connection.removed"));
    expect(listed.map(({ org_id }) => org_id).sort()).toEqual(
      [ended, deleted, again].map(({ person }) => person.accountId).sort(),
    );
  });

  test("include connection.removed of each customer when the platform is removed", async () => {
    const shop = await shopWith({ callback_url: receiver.url });
    const customers = [await connect(api, shop), await connect(api, shop)];
    await lend(api, customers[0]!);
    await settle();
    receiver.requests.length = 0;
    const path = `/v1/service/connections/${shop.platform.connectionId}`;
    expect((await shop.person.client.call("DELETE", path)).status).toBe(200);
    await settle();
    const of = (id: string) => received().filter(([, connectionId]) => connectionId === id);
    expect(of(customers[0]!.connectionId)).toEqual(LEFT.map((k) => [k, customers[0]!.connectionId, []]));
    for (const { connectionId } of [customers[1]!, shop.platform]) {
      expect(of(connectionId)).toEqual([["connection.removed", connectionId, []]]);
    }
  });
});

import { describe, expect, test } from "vitest";
import { appendEvents, type LifecycleEvent } from "../../src/events/outbox.ts";
import { claimDeliveries } from "../../src/webhooks/claim.ts";
import { endpointIdOf, pauseEndpoint, resumeEndpoint, stepBacklogs } from "../../src/webhooks/endpoint.ts";
import { resendDelivery } from "../../src/webhooks/resend_and_recover.ts";
import { makeConnection, secretBox, type TestConnection } from "../events/support/connection.ts";
import { append, createdEvent, deniedEvent } from "../events/support/events.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, customer, deny, requestIds, states } = world;
const db = () => world.home.database;
const now = () => world.harness.clock.now();

/** Appends what a leaving customer causes. */
async function leave({ connectionId, accountId }: TestConnection): Promise<void> {
  const ids = { connection_id: connectionId, org_id: accountId };
  const revoked = { ...ids, cert_id: "cert-1", agent_id: "agent-1", reason: "connection removed" };
  const events: LifecycleEvent[] = [
    { type: "delegation.revoked", connectionId, fields: revoked },
    { type: "connection.removed", connectionId, fields: { ...ids, removed_at: now().toISOString() } },
  ];
  await db().transaction((tx) => appendEvents(tx, secretBox, events, now()));
}

const received = () =>
  world.receiver.requests.map(({ event, faults }) => [event.event, event.connection_id, faults]);
const setCallback = (own: TestConnection, callback_url: string | null) =>
  db()("connections").where({ connection_id: own.connectionId }).update({ callback_url });
/** Moves backlogs and delivers until nothing is left to do. */
async function settle(): Promise<void> {
  await world.harness.relay();
  while (await stepBacklogs({ database: db(), clock: world.harness.clock }));
  await world.harness.deliver();
}
const pause = ({ connectionId }: TestConnection) =>
  db().transaction((tx) => pauseEndpoint(tx, connectionId, now()));
const resume = ({ connectionId }: TestConnection, backlog: "replay" | "discard" = "replay") =>
  db().transaction((tx) => resumeEndpoint(tx, connectionId, backlog, now()));

describe("the events of a customer's connection", () => {
  test("go to the platform's callback, signed with the platform's secret", async () => {
    const own = await connect();
    const one = await customer(own);
    await append(db(), createdEvent(one, "dpz_a1b2c3d4_topsecret"), now());
    await deny(own);
    await leave(one);
    await settle();
    expect(received()).toHaveLength(4);
    expect(received()).toEqual(
      expect.arrayContaining([
        ["connection.created", one.connectionId, []],
        ["delegation.denied", own.connectionId, []],
        ["delegation.revoked", one.connectionId, []],
        ["connection.removed", one.connectionId, []],
      ]),
    );
    const [created] = world.receiver.requests.filter(({ event }) => event.event === "connection.created");
    expect(created!.event).toMatchObject({
      api_key: "dpz_a1b2c3d4_topsecret",
      webhook_signing_secret: own.secret,
      org_id: one.accountId,
    });
    expect(await states(own)).toEqual(Array(4).fill("delivered"));
    expect(await db()("webhook_endpoints").pluck("connection_id")).toEqual([own.connectionId]);
    expect(await db()("event_secrets")).toEqual([]);
  });

  test("arrive in order for each connection, and one customer does not wait for another", async () => {
    const own = await connect();
    const [slow, quick] = [await customer(own), await customer(own)];
    let release = () => {};
    const wait = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.receiver.reply = async ({ event }) => {
      if (event.request_id === "slow-0") await wait;
      return 204;
    };
    for (const n of [0, 1, 2]) await deny(slow, `slow-${n}`);
    for (const n of [0, 1, 2]) await deny(quick, `quick-${n}`);
    await deny(own, "own-0");
    await world.harness.relay();
    const sending = world.harness.deliver();
    await expect.poll(() => requestIds().length).toBe(3);
    expect(requestIds().sort()).toEqual(["own-0", "quick-0", "slow-0"]);
    release();
    await sending;
    const idsOf = (prefix: string) => requestIds().filter((id) => String(id).startsWith(prefix));
    expect(idsOf("slow")).toEqual(["slow-0", "slow-1", "slow-2"]);
    expect(idsOf("quick")).toEqual(["quick-0", "quick-1", "quick-2"]);
  });

  test("take turns, so that the backlog of some customers does not delay another one", async () => {
    const own = await connect();
    const busy = await Promise.all(Array.from({ length: 5 }, () => customer(own)));
    for (const each of busy) for (let n = 0; n < 10; n++) await deny(each, `busy-${n}`);
    const late = await customer(own);
    await deny(late);
    await deny(own);
    await world.harness.relay();
    const served: unknown[] = [];
    for (let n = 0; n < 14; n++) {
      await db()("webhook_endpoints").update({ concurrency: n < 7 ? 1 : 2 });
      const [claimed] = await claimDeliveries(db(), 1, now());
      served.push(claimed!.customer_connection_id);
      const delivered = {
        state: "delivered",
        settled_at: now(),
        lease_token: null,
        lease_until: null,
      } as const;
      await db()("webhook_deliveries").where({ delivery_id: claimed!.delivery_id }).update(delivered);
    }
    const customers = [...busy, late].map(({ connectionId }) => connectionId);
    expect(new Set(served.slice(0, 7))).toEqual(new Set([null, ...customers]));
    expect(new Set(served.slice(7, 12))).toEqual(new Set(busy.map(({ connectionId }) => connectionId)));
  });

  test("stay held while the callback is paused, and are sent in order after the resume", async () => {
    const own = await connect();
    const one = await customer(own);
    await pause(own);
    await append(db(), createdEvent(one, "dpz_a1b2c3d4_topsecret"), now());
    await leave(one);
    await settle();
    expect(await states(own)).toEqual(["held", "held", "held"]);
    await resume(own);
    await settle();
    expect(received()).toEqual([
      ["connection.created", one.connectionId, []],
      ["delegation.revoked", one.connectionId, []],
      ["connection.removed", one.connectionId, []],
    ]);
    expect(world.receiver.requests[0]!.event.api_key).toBe("dpz_a1b2c3d4_topsecret");
    expect(await db()("webhook_deliveries").whereNotNull("body_sealed")).toEqual([]);
  });

  test("all arrive if ten customers leave while the owner pauses, clears, resumes and sets the callback", async () => {
    const own = await connect();
    const leaving = await Promise.all(Array.from({ length: 10 }, () => customer(own)));
    for (const one of leaving) await deny(one);
    await world.harness.relay();
    await pause(own);
    for (const one of leaving.slice(0, 5)) await leave(one);
    await settle();
    await setCallback(own, null);
    await resume(own);
    await settle();
    for (const one of leaving.slice(5)) await leave(one);
    await settle();
    await settle();
    expect([await states(own), received()]).toEqual([Array(30).fill("held"), []]);
    await setCallback(own, world.receiver.url);
    await settle();
    const kinds = ["delegation.denied", "delegation.revoked", "connection.removed"];
    for (const { connectionId } of leaving) {
      expect(received().filter(([, id]) => id === connectionId)).toEqual(
        kinds.map((kind) => [kind, connectionId, []]),
      );
    }
  });

  test("wait for the platform's first callback URL, but own events do not", async () => {
    const own = await makeConnection(db(), null);
    world.receiver.secret = own.secret;
    const one = await customer(own);
    await append(db(), createdEvent(one, "dpz_a1b2c3d4_topsecret"), now());
    await deny(own, "own-0");
    await leave(one);
    await settle();
    await settle();
    expect(await states(own)).toEqual(["held", "held", "held"]);
    await setCallback(own, world.receiver.url);
    await settle();
    expect(received()).toEqual([
      ["connection.created", one.connectionId, []],
      ["delegation.revoked", one.connectionId, []],
      ["connection.removed", one.connectionId, []],
    ]);
    await deny(own, "own-1");
    await settle();
    expect(requestIds().at(-1)).toBe("own-1");
  });

  test("wait for the next callback URL if the URL is cleared", async () => {
    const own = await connect();
    const one = await customer(own);
    await leave(one);
    await world.harness.relay();
    await setCallback(own, null);
    await settle();
    expect([await states(own), received()]).toEqual([["held", "held"], []]);
    await setCallback(own, world.receiver.url);
    await settle();
    expect(received().map(([event]) => event)).toEqual(["delegation.revoked", "connection.removed"]);
  });

  test("outlast a worker that finds no URL, and keep their order", async () => {
    const own = await connect();
    const one = await customer(own);
    await leave(one);
    await world.harness.relay();
    await setCallback(own, null);
    // As a claim finds it that began before the URL was cleared.
    await db()("webhook_endpoints").update({ state: "active", awaits_url: false });
    await db()("webhook_deliveries").update({ state: "pending", next_attempt_at: now() });
    await settle();
    await settle();
    expect(await states(own)).toEqual(["held", "held"]);
    await setCallback(own, world.receiver.url);
    await settle();
    expect(received().map(([event]) => event)).toEqual(["delegation.revoked", "connection.removed"]);
  });

  test("stay held behind an owner's pause when a callback URL is set", async () => {
    const own = await connect();
    const one = await customer(own);
    await pause(own);
    await setCallback(own, null);
    await leave(one);
    await settle();
    await setCallback(own, world.receiver.url);
    await settle();
    expect([await states(own), received()]).toEqual([["held", "held"], []]);
  });

  test("survive the discard of a long backlog if they happen after it", async () => {
    const own = await connect();
    const one = await customer(own);
    await pause(own);
    for (let n = 0; n < 3; n++) await deny(one, `old-${n}`);
    for (let n = 0; n < 3; n++) await deny(own, `own-${n}`);
    await world.harness.relay();
    await db().raw(
      `insert into webhook_deliveries (delivery_id, endpoint_id, event_id, event_type, aggregate_seq, body, state, created_at)
       select gen_random_uuid(), endpoint_id, gen_random_uuid(), event_type, aggregate_seq + 1000 + n, body, state, created_at
       from (select * from webhook_deliveries where aggregate_seq > 0 limit 1) d, generate_series(1, 1500) n`,
    );
    await resume(own, "discard");
    const next = await customer(own);
    await leave(next);
    await deny(one, "new");
    await settle();
    expect(received().map(([, id]) => id)).toEqual(
      expect.arrayContaining([next.connectionId, next.connectionId, one.connectionId]),
    );
    expect(received()).toHaveLength(3);
  });

  test("can be sent again", async () => {
    const own = await connect();
    const one = await customer(own);
    world.receiver.reply = () => 400;
    await deny(one);
    await settle();
    const [delivery] = await world.harness.deliveries(own.connectionId);
    expect(delivery!.state).toBe("rejected");
    world.receiver.reply = () => 204;
    await db().transaction((tx) =>
      resendDelivery(tx, endpointIdOf(own.connectionId), delivery!.deliveryId, now()),
    );
    await settle();
    expect(await states(own)).toEqual(["delivered"]);
  });

  test("share the breaker and the suspension of the platform", async () => {
    const own = await connect();
    const [one, two] = [await customer(own), await customer(own)];
    world.receiver.reply = () => 410;
    await deny(one);
    await settle();
    await deny(two);
    await settle();
    expect(await db()("webhook_endpoints")).toMatchObject([
      { connection_id: own.connectionId, state: "suspended" },
    ]);
    expect(await states(own)).toEqual(["held", "held"]);
  });
});

describe("beside the version before,", () => {
  test("no worker of it cancels them when the URL is cleared, because the endpoint pauses immediately", async () => {
    const own = await connect();
    await leave(await customer(own));
    await world.harness.relay();
    expect(await states(own)).toEqual(["pending", "pending"]);
    await setCallback(own, null);
    expect(await claimDeliveries(db(), 10, now())).toEqual([]);
    expect(await db()("webhook_endpoints")).toMatchObject([{ state: "paused", awaits_url: true }]);
  });

  test("no worker of it relays the events of customers, whichever process appends them", async () => {
    const own = await connect();
    const one = await customer(own);
    const event = deniedEvent(one, "req-1");
    await append(db(), event, now());
    const [row] = await db()("outbox").where({ aggregateid: one.connectionId });
    expect(row).toMatchObject({ aggregatetype: "customer_connection" });
    expect(row!.shard).toBeGreaterThanOrEqual(8);
    expect(await db()("relay_shards").max("shard")).toEqual([{ max: 7 }]);
    await deny(own);
    expect(await db()("outbox").where({ aggregateid: own.connectionId })).toMatchObject([
      { aggregatetype: "connection" },
    ]);
    await settle();
    expect(received()).toHaveLength(2);
    expect(await db()("outbox")).toEqual([]);
  });
});

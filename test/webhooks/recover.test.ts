import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { pauseEndpoint, resumeEndpoint } from "../../src/webhooks/endpoint.ts";
import {
  MOST_DUE,
  RESEND_ATTEMPTS,
  STEP_EXAMINES,
  stepRecovery,
} from "../../src/webhooks/resend_and_recover.ts";
import { virtualClock } from "../events/support/time.ts";
import { insertDelivery, insertRecovery } from "../support/deliveries.ts";
import { untilBlockedIn } from "../support/held_rows.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const now = () => world.harness.clock.now();
const at = (seconds: number) => addSeconds(now(), seconds);
const step = () => stepRecovery({ database: world.home.database, clock: world.harness.clock });
const range = () => ({ since: at(-1000), until: now() });

const recoveryRow = (recoveryId: string) =>
  world.home.database("webhook_recoveries").where({ recovery_id: recoveryId }).first();
const pendingIds = () =>
  world.home.database("webhook_deliveries").where({ state: "pending" }).pluck("delivery_id");

async function failed(count: number) {
  const connection = await world.connect();
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    ids.push(
      await insertDelivery(world.home.database, connection.connectionId, { at: at(n - 1000), attempts: 10 }),
    );
  }
  return { ...connection, ids };
}

async function workOff(): Promise<void> {
  while (await step()) await world.harness.deliver();
}

describe("a recovery", () => {
  test("resends once each delivery that is in the requested range and has a requested state", async () => {
    const { connectionId } = await world.connect();
    const { database } = world.home;
    const put = (state: "failed" | "rejected" | "delivered", seconds: number) =>
      insertDelivery(database, connectionId, { state, at: at(seconds) });
    const before = await put("failed", -1000.001);
    const first = await put("failed", -1000);
    const rejected = await put("rejected", -500);
    const delivered = await put("delivered", -400);
    const last = await put("failed", -0.001);
    const after = await put("failed", 0);
    const recoveryId = await insertRecovery(database, connectionId, {
      ...range(),
      states: ["failed", "rejected"],
    });
    await workOff();
    const sent = world.receiver.requests.map(({ deliveryId }) => deliveryId);
    expect(sent.sort()).toEqual([first, rejected, last].sort());
    expect(sent).not.toEqual(expect.arrayContaining([before, delivered, after]));
    expect(await recoveryRow(recoveryId)).toMatchObject({
      ...{ state: "done", examined: 4, resent: 3, left_out: 0 },
      finished_at: now(),
    });
    expect(await step()).toBe(false);
  });

  test("skips and counts deliveries without a body or with too many attempts", async () => {
    const { connectionId } = await world.connect();
    const { database } = world.home;
    const put = (change: object) => insertDelivery(database, connectionId, { at: at(-10), ...change });
    await put({ attempts: RESEND_ATTEMPTS });
    await put({ body: null });
    const sent = await put({ attempts: RESEND_ATTEMPTS - 1 });
    const recoveryId = await insertRecovery(database, connectionId, range());
    await step();
    expect(await pendingIds()).toEqual([sent]);
    expect(await recoveryRow(recoveryId)).toMatchObject({
      ...{ state: "done", examined: 3, resent: 1, left_out: 2 },
    });
  });

  test("pauses while 50 resent deliveries are due at its endpoint, and continues afterwards", async () => {
    const { connectionId, ids } = await failed(MOST_DUE + 1);
    const recoveryId = await insertRecovery(world.home.database, connectionId, range());
    expect(await step()).toBe(true);
    expect((await pendingIds()).sort()).toEqual(ids.slice(0, MOST_DUE).sort());
    expect(await step()).toBe(false);
    expect(await recoveryRow(recoveryId)).toMatchObject({ state: "running", resent: MOST_DUE });
    await world.harness.deliver();
    await workOff();
    expect(world.receiver.requests.length).toBe(MOST_DUE + 1);
    expect(await recoveryRow(recoveryId)).toMatchObject({ state: "done", resent: MOST_DUE + 1 });
  });

  test("does not pause for deliveries that are due later or were never tried", async () => {
    const { connectionId, ids } = await failed(1);
    const { database } = world.home;
    for (let n = 0; n < MOST_DUE; n++) {
      await insertDelivery(database, connectionId, { state: "pending", attempts: 1, at: at(1) });
      await insertDelivery(database, connectionId, { state: "pending", attempts: 0, at: at(-1) });
    }
    await insertRecovery(database, connectionId, { since: at(-1000), until: at(-900) });
    expect(await step()).toBe(true);
    expect(await pendingIds()).toEqual(expect.arrayContaining(ids));
  });

  test("examines a limited number of deliveries in each step, and skips no delivery between two steps", async () => {
    const { connectionId } = await world.connect();
    const { database } = world.home;
    await insertDelivery(database, connectionId, { state: "delivered", at: at(-900) });
    await database.raw(
      `insert into webhook_deliveries (delivery_id, endpoint_id, event_id, event_type, aggregate_seq, body, state, attempts,
                                       created_at, settled_at)
       select gen_random_uuid(), endpoint_id, event_id, event_type, n, body, 'delivered', 1, created_at, settled_at
       from webhook_deliveries, generate_series(2, ${STEP_EXAMINES}) n`,
    );
    const last = await insertDelivery(database, connectionId, { at: at(-800) });
    const recoveryId = await insertRecovery(database, connectionId, range());
    await step();
    expect(await recoveryRow(recoveryId)).toMatchObject({
      ...{ state: "running", examined: STEP_EXAMINES, resent: 0 },
    });
    await step();
    expect(await pendingIds()).toEqual([last]);
    expect(await recoveryRow(recoveryId)).toMatchObject({ state: "done", examined: STEP_EXAMINES + 1 });
  });

  test("alternates with other recoveries", async () => {
    const { database } = world.home;
    const [one, other] = [await failed(1), await failed(1)];
    const busy = await insertRecovery(database, one.connectionId, { ...range(), stepped_at: at(-1) });
    const waiting = await insertRecovery(database, other.connectionId, { ...range(), stepped_at: at(-2) });
    await step();
    expect([(await recoveryRow(busy))?.examined, (await recoveryRow(waiting))?.examined]).toEqual([0, 1]);
  });

  test("resends each delivery once even with many workers", async () => {
    const { connectionId } = await failed(120);
    const recoveryId = await insertRecovery(world.home.database, connectionId, range());
    for (let round = 0; (await recoveryRow(recoveryId))?.state === "running" && round < 20; round++) {
      await Promise.all(Array.from({ length: 8 }, step));
      expect((await pendingIds()).length).toBeLessThanOrEqual(MOST_DUE);
      await world.harness.deliver();
    }
    expect(await recoveryRow(recoveryId)).toMatchObject({ state: "done", examined: 120, resent: 120 });
    expect(world.receiver.requests.length).toBe(120);
    expect(new Set(world.receiver.requests.map(({ deliveryId }) => deliveryId)).size).toBe(120);
  });
});

describe("a recovery does nothing", () => {
  test.each([
    ["its endpoint is paused", { state: "paused" as const }],
    [
      "the breaker is open",
      { breaker_open_seconds: 60, breaker_open_until: addSeconds(virtualClock().now(), 1) },
    ],
  ])("while %s", async (_, endpoint) => {
    const { connectionId, ids } = await failed(1);
    const { database } = world.home;
    const recoveryId = await insertRecovery(database, connectionId, range());
    await database("webhook_endpoints").update(endpoint);
    expect(await step()).toBe(false);
    expect(await recoveryRow(recoveryId)).toMatchObject({ state: "running", examined: 0 });
    world.harness.clock.advance(1);
    await database("webhook_endpoints").update({ state: "active" });
    expect(await step()).toBe(true);
    expect(await pendingIds()).toEqual(ids);
  });

  test("while its endpoint has no URL", async () => {
    const { connectionId, ids } = await failed(1);
    const { database } = world.home;
    await insertRecovery(database, connectionId, range());
    const connection = () => database("connections").where({ connection_id: connectionId });
    await connection().update({ callback_url: null });
    expect([await step(), await pendingIds()]).toEqual([false, []]);
    await connection().update({ callback_url: world.receiver.url });
    expect([await step(), await pendingIds()]).toEqual([true, ids]);
  });

  test("if the endpoint is paused after the recovery was selected", async () => {
    const { connectionId } = await failed(1);
    const { database } = world.home;
    await insertRecovery(database, connectionId, range());
    const pausing = await database.transaction();
    await pauseEndpoint(pausing, connectionId, now());
    const stepping = step();
    await untilBlockedIn(database);
    await pausing.commit();
    await stepping;
    expect(await pendingIds()).toEqual([]);
  });
});

describe("a recovery ends", () => {
  test("when its connection is removed", async () => {
    const { connectionId } = await failed(1);
    const { database } = world.home;
    const recoveryId = await insertRecovery(database, connectionId, range());
    await database("connections").where({ connection_id: connectionId }).update({ removed_at: now() });
    expect([await step(), await step()]).toEqual([true, false]);
    expect(await recoveryRow(recoveryId)).toMatchObject({ state: "cancelled", examined: 0 });
    expect(await pendingIds()).toEqual([]);
  });

  test("when held deliveries are discarded, but not when they are sent", async () => {
    const { connectionId } = await failed(1);
    const { database } = world.home;
    const recoveryId = await insertRecovery(database, connectionId, range());
    const change = (work: "replay" | "discard") =>
      database.transaction(async (tx) => {
        await pauseEndpoint(tx, connectionId, now());
        await resumeEndpoint(tx, connectionId, work, now());
      });
    await change("replay");
    expect(await recoveryRow(recoveryId)).toMatchObject({ state: "running" });
    await change("discard");
    expect(await recoveryRow(recoveryId)).toMatchObject({ state: "cancelled", finished_at: now() });
    expect(await step()).toBe(false);
  });
});

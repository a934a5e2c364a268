import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { claimDeliveries } from "../../src/webhooks/claim.ts";
import {
  BACKLOG_BATCH,
  endpointIdOf,
  LAST_WAITING,
  pauseEndpoint,
  resumeEndpoint,
  stepBacklogs,
} from "../../src/webhooks/endpoint.ts";
import { resendDelivery, stepRecovery } from "../../src/webhooks/resend_and_recover.ts";
import type { TestConnection } from "../events/support/connection.ts";
import { insertDelivery, insertRecovery } from "../support/deliveries.ts";
import { deliveryWorld } from "./delivery_world.ts";

/** One more than two batches. A call moves one batch, and the worker moves the rest. */
const COUNT = 2 * BACKLOG_BATCH + 1;
const world = deliveryWorld();
const now = () => world.harness.clock.now();
const step = () => stepBacklogs({ database: world.home.database, clock: world.harness.clock });
let connection: TestConnection;

beforeEach(async () => {
  connection = await world.connect();
});

const pause = () =>
  world.home.database.transaction((tx) => pauseEndpoint(tx, connection.connectionId, now()));
const resume = (backlog: "replay" | "discard" = "replay") =>
  world.home.database.transaction((tx) => resumeEndpoint(tx, connection.connectionId, backlog, now()));

/** Inserts deliveries with the sequence numbers 1 to `count`. */
async function waiting(count: number, state: "pending" | "held" = "pending"): Promise<void> {
  const { database } = world.home;
  await insertDelivery(database, connection.connectionId, { state, attempts: 0, at: now() });
  await database.raw(
    `insert into webhook_deliveries (delivery_id, endpoint_id, event_id, event_type, aggregate_seq, body, state, attempts,
                                     next_attempt_at, created_at)
     select gen_random_uuid(), endpoint_id, event_id, event_type, n, body, state, 0, next_attempt_at, created_at
     from webhook_deliveries, generate_series(2, :count::integer) n`,
    { count },
  );
}

async function counts(): Promise<Record<string, number>> {
  const { rows } = await world.home.database.raw(
    "select state, count(*) from webhook_deliveries group by state order by state",
  );
  return Object.fromEntries(
    (rows as { state: string; count: number }[]).map(({ state, count }) => [state, count]),
  );
}

test("after a pause commits, the worker claims nothing from the backlog, however long the backlog is", async () => {
  await waiting(COUNT);
  const { database } = world.home;
  const endpoint = database("webhook_endpoints").where({
    endpoint_id: endpointIdOf(connection.connectionId),
  });
  await database("webhook_deliveries").update({ attempts: 1 });
  await endpoint.clone().update({ concurrency: 1000 });
  for (let round = 0; round < 15; round++) {
    let racing = true;
    const claims = Array.from({ length: 6 }, async () => {
      while (racing) await claimDeliveries(database, 1, now());
    });
    const atPause = await database.transaction(async (tx) => {
      await pauseEndpoint(tx, connection.connectionId, now());
      return endpoint.clone().transacting(tx).first("claims");
    });
    await sleep(20);
    racing = false;
    await Promise.all(claims);
    expect(await endpoint.clone().first("claims")).toEqual(atPause);
    await resume();
  }
});

describe("the backlog of an endpoint", () => {
  test("becomes held in small steps, and none of its deliveries is sent meanwhile", async () => {
    await waiting(COUNT);
    await pause();
    expect(await counts()).toEqual({ held: BACKLOG_BATCH, pending: COUNT - BACKLOG_BATCH });
    expect(await claimDeliveries(world.home.database, 10, now())).toEqual([]);
    expect([await step(), await step(), await step()]).toEqual([true, true, false]);
    expect(await counts()).toEqual({ held: COUNT });
  });

  test("keeps its order, and new events are sent after it", async () => {
    await waiting(COUNT);
    await pause();
    while (await step());
    await resume();
    const { database } = world.home;
    const lastPending = () =>
      database("webhook_deliveries").where({ state: "pending" }).max("aggregate_seq as last");
    expect(await lastPending()).toEqual([{ last: BACKLOG_BATCH }]);
    await database("connections")
      .where({ connection_id: connection.connectionId })
      .update({ next_event_seq: COUNT + 1 });
    await world.deny(connection, "later");
    await world.harness.relay();
    expect(await counts()).toEqual({ held: COUNT - BACKLOG_BATCH + 1, pending: BACKLOG_BATCH });
    const [first] = await claimDeliveries(database, 1, now());
    expect(first?.aggregate_seq).toBe(1);
    while (await step());
    expect(await counts()).toEqual({ pending: COUNT, sending: 1 });
    await world.deny(connection, "last");
    await world.harness.relay();
    expect(await counts()).toEqual({ pending: COUNT + 1, sending: 1 });
  });

  test("becomes completely cancelled if it is discarded, and only newer events are sent", async () => {
    await waiting(COUNT);
    await pause();
    await resume("discard");
    expect(await counts()).toEqual({ cancelled: BACKLOG_BATCH, pending: COUNT - BACKLOG_BATCH });
    const { database } = world.home;
    expect(await claimDeliveries(database, 10, now())).toEqual([]);
    await database("connections")
      .where({ connection_id: connection.connectionId })
      .update({ next_event_seq: COUNT + 1 });
    await world.deny(connection, "later");
    await world.harness.relay();
    expect(await counts()).toMatchObject({ held: 1 });
    while (await step());
    expect(await counts()).toEqual({ cancelled: COUNT, pending: 1 });
    const kept = await database("webhook_deliveries").where({ state: "cancelled" }).whereNotNull("body");
    expect(kept).toEqual([]);
    await world.harness.deliver();
    expect(world.requestIds()).toEqual(["later"]);
  });

  test("stays discarded if the callback is paused during the discard", async () => {
    await waiting(COUNT);
    await pause();
    await resume("discard");
    await pause();
    while (await step());
    await resume();
    while (await step());
    expect(await counts()).toEqual({ cancelled: COUNT });
  });

  test("does not discard deliveries that are resent meanwhile", async () => {
    await waiting(COUNT);
    const { database } = world.home;
    const { connectionId } = connection;
    const failed = await insertDelivery(database, connectionId, { at: now() });
    await pause();
    await resume("discard");
    const endpointId = endpointIdOf(connectionId);
    const resend = () => database.transaction((tx) => resendDelivery(tx, endpointId, failed, now()));
    expect(await resend()).toBe("callback_inactive");
    world.harness.clock.advance(1);
    await insertRecovery(database, connectionId, { since: new Date(0), until: now() });
    expect(await stepRecovery({ database, clock: world.harness.clock })).toBe(false);
    while (await step());
    while (await stepRecovery({ database, clock: world.harness.clock }));
    expect(await counts()).toEqual({ cancelled: COUNT, pending: 1 });
  });

  test("becomes pending if it is still held although its endpoint is active", async () => {
    await waiting(1, "held");
    expect([await step(), await step()]).toEqual([true, false]);
    expect(await counts()).toEqual({ pending: 1 });
  });

  test("does not include deliveries of a different endpoint", async () => {
    await waiting(1);
    const other = await world.connect();
    await insertDelivery(world.home.database, other.connectionId, {
      state: "pending",
      attempts: 0,
      at: now(),
    });
    await pause();
    while (await step());
    expect(await counts()).toEqual({ held: 1, pending: 1 });
  });
});

test("discarding a backlog does not read the endpoint's whole history", async () => {
  const { database } = world.home;
  await waiting(COUNT, "held");
  await database.raw(
    "update webhook_deliveries set state = 'delivered', settled_at = now() where aggregate_seq % 50 > 0",
  );
  await database.raw("analyze webhook_deliveries");
  const endpointId = endpointIdOf(connection.connectionId);
  const { rows } = await database.raw(`explain select ${LAST_WAITING}`, { endpointId });
  const plan = (rows as { "QUERY PLAN": string }[]).map((row) => row["QUERY PLAN"]).join("\n");
  expect(plan).toContain("webhook_deliveries_backlog");
  expect(plan).not.toMatch(/Seq Scan|webhook_deliveries_newest/);
});

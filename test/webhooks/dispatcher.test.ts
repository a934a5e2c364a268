import { Registry } from "prom-client";
import { v5 as uuidv5 } from "uuid";
import { describe, expect, test } from "vitest";
import { createEventMetrics } from "../../src/events/event_metrics.ts";
import { makeConnection } from "../events/support/connection.ts";
import { append, createdEvent } from "../events/support/events.ts";
import { startHarness } from "../events/support/harness.ts";
import { virtualClock } from "../events/support/time.ts";
import { deliveryWorld } from "./delivery_world.ts";

describe("the dispatcher", () => {
  test("sends events one at a time, in order, to a receiver that accepts everything", async () => {
    const connection = await connect();
    world.receiver.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
      return 204;
    };
    const ids = Array.from({ length: 30 }, (_, n) => `req-${n}`);
    for (const id of ids) await deny(connection, id);
    await world.harness.run();
    expect(requestIds()).toEqual(ids);
    expect(world.receiver.mostOpen).toBe(1);
  });

  test("delivers later events although an earlier one fails", async () => {
    const connection = await connect();
    world.receiver.reply = ({ event }) => (event.request_id === "bad" ? 500 : 204);
    for (const id of ["bad", "one", "two"]) await deny(connection, id);
    await world.harness.run();
    expect(await states(connection)).toEqual(["pending", "delivered", "delivered"]);
  });

  test("sends as many concurrent requests to an endpoint as its limit allows", async () => {
    const connection = await connect();
    world.receiver.reply = () => 404;
    for (let n = 0; n < 20; n++) await deny(connection, `req-${n}`);
    await world.harness.run();
    const now = world.harness.clock.now();
    await world.home
      .database("webhook_deliveries")
      .update({ state: "pending", settled_at: null, next_attempt_at: now });
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.receiver.mostOpen = 0;
    world.receiver.reply = async () => {
      if (world.receiver.open === 4) setTimeout(release, 100);
      await gate;
      return 404;
    };
    await world.harness.deliver();
    expect(world.receiver.mostOpen).toBe(4);
    expect(world.receiver.requests.length).toBe(40);
  });

  test("never exceeds the process's limit of concurrent requests", async () => {
    world.harness = await startHarness(world.home, { limit: 3 });
    const connections = await Promise.all(Array.from({ length: 10 }, () => connect()));
    for (const connection of connections) await deny(connection);
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.receiver.reply = async () => {
      if (world.receiver.open === 3) setTimeout(release, 100);
      await gate;
      return 204;
    };
    await world.harness.run();
    expect([world.receiver.mostOpen, world.receiver.requests.length]).toEqual([3, 10]);
  });

  test("alternates between endpoints, so that a busy endpoint does not delay the others", async () => {
    world.harness = await startHarness(world.home, { limit: 2 });
    const busy = await connect();
    for (let n = 0; n < 20; n++) await deny(busy, "busy");
    const quiet = await Promise.all(Array.from({ length: 4 }, () => connect()));
    for (const connection of quiet) await deny(connection, "quiet");
    await world.harness.run();
    const lastQuiet = requestIds().lastIndexOf("quiet");
    expect(
      requestIds()
        .slice(0, lastQuiet)
        .filter((id) => id === "busy").length,
    ).toBeLessThanOrEqual(4);
    expect(world.receiver.requests.length).toBe(24);
  });
});

const world = deliveryWorld();
const { connect, deny, requestIds, states } = world;

describe("a delivery", () => {
  test("sends one signed request with the event's fields, and an id derived from endpoint and event", async () => {
    const connection = await connect();
    await deny(connection);
    const [row] = await world.home.database("outbox");
    await world.harness.run();
    const deliveryId = uuidv5(row!.event_id, uuidv5("callback", connection.connectionId));
    expect(world.receiver.requests).toEqual([
      expect.objectContaining({
        path: "/hook",
        deliveryId,
        faults: [],
        event: {
          event: "delegation.denied",
          request_id: "req-1",
          connection_id: connection.connectionId,
          org_id: connection.accountId,
          agent_id: "agent-1",
          delivery_id: deliveryId,
        },
      }),
    ]);
    expect(await world.harness.deliveries(connection.connectionId)).toEqual([
      {
        deliveryId,
        eventType: "delegation.denied",
        state: "delivered",
        attempts: [{ outcome: "delivered", status: 204, detail: null, excerpt: "" }],
      },
    ]);
  });

  test("happens only once if the bus delivers its event twice, even without the inbox", async () => {
    const connection = await connect();
    await deny(connection);
    const { id: _, ...row } = (await world.home.database("outbox").first())!;
    const again = { ...row, headers: {} };
    await world.harness.run();
    await world.home.database("outbox").insert(again);
    await world.harness.run();
    await world.home.database("inbox").delete();
    await world.home.database("outbox").insert(again);
    await world.harness.run();
    expect([world.receiver.requests.length, await states(connection)]).toEqual([1, ["delivered"]]);
    expect(await world.home.database("dead_letters")).toEqual([]);
  });

  test("keeps its bytes and id at every attempt, but gets a new timestamp and signature", async () => {
    const connection = await connect();
    world.receiver.reply = (_request, _response, nth) => (nth < 3 ? 500 : 204);
    await deny(connection);
    await world.harness.run();
    for (let retry = 0; retry < 2; retry++) {
      world.harness.clock.set((await world.harness.nextAttempt())!);
      await world.harness.deliver();
    }
    const different = (pick: (request: (typeof world.receiver.requests)[number]) => unknown) =>
      new Set(world.receiver.requests.map(pick)).size;
    expect(world.receiver.requests.map(({ faults }) => faults)).toEqual([[], [], []]);
    expect(different(({ body }) => body)).toBe(1);
    expect(different(({ deliveryId }) => deliveryId)).toBe(1);
    expect(different(({ headers }) => headers["x-service-timestamp"])).toBe(3);
    expect(different(({ headers }) => headers["x-service-signature"])).toBe(3);
    expect(await states(connection)).toEqual(["delivered"]);
  });

  test("uses the callback URL that is set at the time of the attempt", async () => {
    const connection = await connect();
    world.receiver.reply = () => 500;
    await deny(connection);
    await world.harness.run();
    const moved = world.receiver.url.replace("/hook", "/moved");
    await world.home
      .database("connections")
      .where({ connection_id: connection.connectionId })
      .update({ callback_url: moved });
    world.harness.clock.set((await world.harness.nextAttempt())!);
    await world.harness.deliver();
    expect(world.receiver.requests.map(({ path }) => path)).toEqual(["/hook", "/moved"]);
    expect(new Set(world.receiver.requests.map(({ deliveryId }) => deliveryId)).size).toBe(1);
  });

  test("reaches the receiver even after the connection was removed", async () => {
    const connection = await connect();
    const { connectionId, accountId } = connection;
    const now = world.harness.clock.now();
    await world.home
      .database("connections")
      .where({ connection_id: connectionId })
      .update({ removed_at: now });
    const fields = { connection_id: connectionId, org_id: accountId, removed_at: now.toISOString() };
    await append(world.home.database, { type: "connection.removed", connectionId, fields });
    await world.harness.run();
    const [removed] = world.receiver.requests;
    expect(world.receiver.requests.map(({ event, faults }) => [event, faults])).toEqual([
      [{ event: "connection.removed", ...fields, delivery_id: removed?.deliveryId }, []],
    ]);
  });

  test("does not exist without a callback URL, and is not created later", async () => {
    const connection = await makeConnection(world.home.database, null);
    await append(world.home.database, createdEvent(connection, "dpz_key"));
    await world.harness.run();
    expect(await world.harness.deliveries(connection.connectionId)).toEqual([]);
    expect(await world.home.database("event_secrets")).toEqual([]);
    world.receiver.secret = connection.secret;
    await world.home
      .database("connections")
      .where({ connection_id: connection.connectionId })
      .update({ callback_url: world.receiver.url });
    await deny(connection, "later");
    await world.harness.run();
    expect(requestIds()).toEqual(["later"]);
  });

  test("becomes cancelled at its next attempt if the callback URL was removed", async () => {
    const connection = await connect();
    world.receiver.reply = () => 500;
    await deny(connection);
    await world.harness.run();
    await world.home
      .database("connections")
      .where({ connection_id: connection.connectionId })
      .update({ callback_url: null });
    world.harness.clock.set((await world.harness.nextAttempt())!);
    await world.harness.deliver();
    expect([world.receiver.requests.length, await states(connection)]).toEqual([1, ["cancelled"]]);
  });
});

test("the dispatcher writes a result although the database closes its connection, and sends no second request", async () => {
  const connection = await connect();
  await deny(connection);
  await world.harness.relay();
  const lock = await world.home.database.transaction();
  world.receiver.reply = async () => {
    await lock("webhook_endpoints").forUpdate();
    return 204;
  };
  const delivering = world.harness.deliver();
  const waiting =
    "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  await expect.poll(async () => (await world.home.database.raw(waiting)).rows.length).toBe(1);
  await world.home.database.raw(`select pg_terminate_backend(pid) from (${waiting}) w`);
  await lock.rollback();
  await delivering;
  expect([world.receiver.requests.length, await states(connection)]).toEqual([1, ["delivered"]]);
});

test("the dispatcher measures the seconds of each attempt, by outcome", async () => {
  const [registry, clock] = [new Registry(), virtualClock()];
  const { attempt: measure } = createEventMetrics({ registry, clock });
  world.harness = await startHarness(world.home, { clock, measure });
  const connection = await connect();
  world.receiver.reply = (_request, _response, nth) => {
    clock.advance(nth === 1 ? 0.25 : 1.5);
    return nth === 1 ? 400 : 204;
  };
  for (const id of ["one", "two"]) await deny(connection, id);
  await world.harness.run();
  const sums = (await registry.metrics()).match(/^deputize_webhook_attempt_seconds_sum.*$/gm);
  expect(sums).toEqual([
    'deputize_webhook_attempt_seconds_sum{outcome="rejected"} 0.25',
    'deputize_webhook_attempt_seconds_sum{outcome="delivered"} 1.5',
  ]);
});

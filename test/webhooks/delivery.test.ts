import { v5 as uuidv5 } from "uuid";
import { describe, expect, test } from "vitest";
import { makeConnection } from "../events/support/connection.ts";
import { append, createdEvent } from "../events/support/events.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, deny, requestIds, states } = world;

describe("a delivery", () => {
  test("is one request with the event's kind and fields, rightly signed, and an id that follows from endpoint and event", async () => {
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

  test("is not repeated when the bus brings its event again, even when the inbox has forgotten it", async () => {
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

  test("has the same bytes and id at every attempt, and a new timestamp and signature", async () => {
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

  test("goes to the callback URL of the moment it is sent", async () => {
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

  test("is still made after the connection was removed", async () => {
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
    expect(world.receiver.requests.map(({ event, faults }) => [event, faults])).toEqual([
      [{ event: "connection.removed", ...fields }, []],
    ]);
  });

  test("is not made when the connection has no callback URL: the event is consumed, and not sent later", async () => {
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

  test("is cancelled at its next attempt when the callback URL was taken away", async () => {
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

test("a result is written though the database cuts the connection that writes it, and nothing is sent again", async () => {
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

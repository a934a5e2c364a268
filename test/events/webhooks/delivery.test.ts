import { v5 as uuidv5 } from "uuid";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAddressPolicy } from "../../../src/events/webhooks/addresses.ts";
import { resumeEndpoint } from "../../../src/events/webhooks/endpoint.ts";
import { setCallback } from "../../../src/platforms/set_callback.ts";
import { makeConnection, type TestConnection } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { append, createdEvent, deniedEvent } from "../support/events.ts";
import { type Harness, startHarness } from "../support/harness.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";

const home = useDatabase();
let harness: Harness;
let receiver: Receiver;

beforeEach(async () => {
  await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints cascade");
  harness = await startHarness(home);
  receiver = await startReceiver(() => harness.clock.now().getTime());
});
afterEach(() => receiver.close());

/** A connection whose callback is the receiver's, with its secret known to the receiver. */
async function connect(): Promise<TestConnection> {
  const connection = await makeConnection(home.database, receiver.url);
  receiver.secret = connection.secret;
  return connection;
}
const deny = (connection: TestConnection, id = "req-1") =>
  append(home.database, deniedEvent(connection, id), harness.clock.now());
const requestIds = () => receiver.requests.map(({ event }) => event.request_id);
const states = async ({ connectionId }: TestConnection) =>
  (await harness.deliveries(connectionId)).map((delivery) => delivery.state);
const textOfDatabase = async () => {
  const tables = ["outbox", "event_secrets", "inbox", "dead_letters", "connections"];
  tables.push("webhook_endpoints", "webhook_deliveries", "webhook_attempts");
  const rows = await Promise.all(tables.map((table) => home.database.raw(`select t::text from ${table} t`)));
  return JSON.stringify(rows.map((result) => result.rows));
};

describe("a delivery", () => {
  test("is one request with the event's kind and fields, rightly signed, and an id that follows from endpoint and event", async () => {
    const connection = await connect();
    await deny(connection);
    const [row] = await home.database("outbox");
    await harness.run();
    const deliveryId = uuidv5(row!.event_id, uuidv5("callback", connection.connectionId));
    expect(receiver.requests).toEqual([
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
    expect(await harness.deliveries(connection.connectionId)).toEqual([
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
    const { id: _, ...row } = (await home.database("outbox").first())!;
    const again = { ...row, headers: {} };
    await harness.run();
    await home.database("outbox").insert(again);
    await harness.run();
    await home.database("inbox").delete();
    await home.database("outbox").insert(again);
    await harness.run();
    expect([receiver.requests.length, await states(connection)]).toEqual([1, ["delivered"]]);
    expect(await home.database("dead_letters")).toEqual([]);
  });

  test("has the same bytes and id at every attempt, and a new timestamp and signature", async () => {
    const connection = await connect();
    receiver.reply = (_request, _response, nth) => (nth < 3 ? 500 : 204);
    await deny(connection);
    await harness.run();
    for (let retry = 0; retry < 2; retry++) {
      harness.clock.set((await harness.nextAttempt())!);
      await harness.deliver();
    }
    const different = (pick: (request: (typeof receiver.requests)[number]) => unknown) =>
      new Set(receiver.requests.map(pick)).size;
    expect(receiver.requests.map(({ faults }) => faults)).toEqual([[], [], []]);
    expect(different(({ body }) => body)).toBe(1);
    expect(different(({ deliveryId }) => deliveryId)).toBe(1);
    expect(different(({ headers }) => headers["x-service-timestamp"])).toBe(3);
    expect(different(({ headers }) => headers["x-service-signature"])).toBe(3);
    expect(await states(connection)).toEqual(["delivered"]);
  });

  test("goes to the callback URL of the moment it is sent", async () => {
    const connection = await connect();
    receiver.reply = () => 500;
    await deny(connection);
    await harness.run();
    const moved = receiver.url.replace("/hook", "/moved");
    await home
      .database("connections")
      .where({ connection_id: connection.connectionId })
      .update({ callback_url: moved });
    harness.clock.set((await harness.nextAttempt())!);
    await harness.deliver();
    expect(receiver.requests.map(({ path }) => path)).toEqual(["/hook", "/moved"]);
    expect(new Set(receiver.requests.map(({ deliveryId }) => deliveryId)).size).toBe(1);
  });

  test("is still made after the connection was removed", async () => {
    const connection = await connect();
    const { connectionId, accountId } = connection;
    const now = harness.clock.now();
    await home.database("connections").where({ connection_id: connectionId }).update({ removed_at: now });
    const fields = { connection_id: connectionId, org_id: accountId, removed_at: now.toISOString() };
    await append(home.database, { type: "connection.removed", connectionId, fields });
    await harness.run();
    expect(receiver.requests.map(({ event, faults }) => [event, faults])).toEqual([
      [{ event: "connection.removed", ...fields }, []],
    ]);
  });

  test("is not made when the connection has no callback URL: the event is consumed, and not sent later", async () => {
    const connection = await makeConnection(home.database, null);
    await append(home.database, createdEvent(connection, "dpz_key"));
    await harness.run();
    expect(await harness.deliveries(connection.connectionId)).toEqual([]);
    expect(await home.database("event_secrets")).toEqual([]);
    receiver.secret = connection.secret;
    await home
      .database("connections")
      .where({ connection_id: connection.connectionId })
      .update({ callback_url: receiver.url });
    await deny(connection, "later");
    await harness.run();
    expect(requestIds()).toEqual(["later"]);
  });

  test("is cancelled at its next attempt when the callback URL was taken away", async () => {
    const connection = await connect();
    receiver.reply = () => 500;
    await deny(connection);
    await harness.run();
    await home
      .database("connections")
      .where({ connection_id: connection.connectionId })
      .update({ callback_url: null });
    harness.clock.set((await harness.nextAttempt())!);
    await harness.deliver();
    expect([receiver.requests.length, await states(connection)]).toEqual([1, ["cancelled"]]);
  });
});

describe("secrets of connection.created", () => {
  const apiKey = "dpz_a1b2c3d4_topsecret";

  test("are in the body that is sent, and never in plain text in the database", async () => {
    const connection = await connect();
    const texts: string[] = [];
    receiver.reply = async (_request, response, nth) => {
      texts.push(await textOfDatabase());
      response.writeHead(nth === 1 ? 500 : 200).end(`echo ${apiKey} ${connection.secret}`);
      return undefined;
    };
    await append(home.database, createdEvent(connection, apiKey));
    texts.push(await textOfDatabase());
    await harness.relay();
    texts.push(await textOfDatabase());
    await harness.deliver();
    harness.clock.set((await harness.nextAttempt())!);
    await harness.deliver();
    texts.push(await textOfDatabase());
    expect(
      receiver.requests.map(({ event, faults }) => [event.api_key, event.webhook_signing_secret, faults]),
    ).toEqual(Array(2).fill([apiKey, connection.secret, []]));
    expect(receiver.requests[0]!.event).toMatchObject({ event: "connection.created", org_name: "Ada Byron" });
    const asHex = (text: string) => Buffer.from(text).toString("hex");
    expect(texts.length).toBe(5);
    for (const text of texts) {
      for (const secret of [apiKey, connection.secret]) {
        expect(text.includes(secret)).toBe(false);
        expect(text.includes(asHex(secret))).toBe(false);
      }
    }
  });

  test("are gone from the database, even sealed, once delivered", async () => {
    const connection = await connect();
    await append(home.database, createdEvent(connection, apiKey));
    await harness.relay();
    expect(await home.database("event_secrets")).toEqual([]);
    expect(await home.database("webhook_deliveries").whereNotNull("body_sealed")).toHaveLength(1);
    await harness.deliver();
    expect(await home.database("webhook_deliveries").whereNotNull("body_sealed")).toHaveLength(0);
    expect(await states(connection)).toEqual(["delivered"]);
  });

  test("are not sent when their seal cannot be opened: the attempt fails and is tried again", async () => {
    const connection = await connect();
    await append(home.database, createdEvent(connection, apiKey));
    await harness.relay();
    const sealed = (await home.database("webhook_deliveries").first())!.body_sealed;
    await home.database("webhook_deliveries").update({ body_sealed: Buffer.alloc(40, 1) });
    await harness.deliver();
    expect((await harness.deliveries(connection.connectionId))[0]).toMatchObject({
      state: "pending",
      attempts: [{ outcome: "failed", status: null, detail: "internal" }],
    });
    await home.database("webhook_deliveries").update({ body_sealed: sealed });
    harness.clock.set((await harness.nextAttempt())!);
    await harness.deliver();
    expect(receiver.requests.map(({ event }) => event.api_key)).toEqual([apiKey]);
  });
});

test("a result is written though the database cuts the connection that writes it, and nothing is sent again", async () => {
  const connection = await connect();
  await deny(connection);
  await harness.relay();
  const lock = await home.database.transaction();
  receiver.reply = async () => {
    await lock("webhook_endpoints").forUpdate();
    return 204;
  };
  const delivering = harness.deliver();
  const waiting =
    "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  await expect.poll(async () => (await home.database.raw(waiting)).rows.length).toBe(1);
  await home.database.raw(`select pg_terminate_backend(pid) from (${waiting}) w`);
  await lock.rollback();
  await delivering;
  expect([receiver.requests.length, await states(connection)]).toEqual([1, ["delivered"]]);
});

describe("outcomes", () => {
  test.each([
    [200, "delivered", "delivered", undefined],
    [299, "delivered", "delivered", undefined],
    [302, "pending", "failed", 5],
    [400, "rejected", "rejected", undefined],
    [401, "rejected", "rejected", undefined],
    [404, "rejected", "rejected", undefined],
    [408, "pending", "failed", 5],
    [410, "held", "gone", undefined],
    [425, "pending", "failed", 5],
    [429, "pending", "failed", 60],
    [500, "pending", "failed", 5],
    [503, "pending", "failed", 60],
  ])("an answer of %i leaves the delivery %s, the attempt %s", async (status, state, outcome, delay) => {
    const connection = await connect();
    receiver.reply = (_request, response) =>
      void response.writeHead(status, { Location: receiver.url }).end("why");
    await deny(connection);
    await harness.run();
    expect(await harness.deliveries(connection.connectionId)).toMatchObject([
      { state, attempts: [{ outcome, status, detail: null, excerpt: "why" }] },
    ]);
    expect(receiver.requests.length).toBe(1);
    const next = await harness.nextAttempt();
    expect(next && (next.getTime() - harness.clock.now().getTime()) / 1000).toBe(delay);
  });

  test("Retry-After is heeded", async () => {
    const connection = await connect();
    receiver.reply = (_request, response) => void response.writeHead(503, { "Retry-After": "100" }).end();
    await deny(connection);
    await harness.run();
    expect(await harness.nextAttempt()).toEqual(new Date(harness.clock.now().getTime() + 100_000));
    expect(await states(connection)).toEqual(["pending"]);
  });

  test.each([
    ["no receiver", "http://127.0.0.1:9/", "pending", "failed", "ECONNREFUSED"],
    [
      "a forbidden address",
      "http://10.0.0.1/",
      "blocked",
      "blocked",
      "the host must be a name that is not this machine's own",
    ],
  ])("%s leaves the delivery as it should", async (_, url, state, outcome, detail) => {
    const connection = await makeConnection(home.database, url);
    await deny(connection);
    await harness.run();
    expect(await harness.deliveries(connection.connectionId)).toMatchObject([
      { state, attempts: [{ outcome, status: null, detail, excerpt: null }] },
    ]);
  });
});

describe("a receiver that is down for days", () => {
  test("gets 10 attempts at the moments of the schedule, then the delivery has failed", async () => {
    const connection = await connect();
    receiver.reply = () => 500;
    await deny(connection);
    const start = harness.clock.now().getTime();
    const moments: number[] = [];
    await harness.run();
    for (let next = await harness.nextAttempt(); next; next = await harness.nextAttempt()) {
      moments.push((next.getTime() - start) / 1000);
      harness.clock.set(new Date(next.getTime() - 1));
      const before = receiver.requests.length;
      await harness.deliver();
      expect(receiver.requests.length).toBe(before);
      harness.clock.set(next);
      await harness.deliver();
      expect(receiver.requests.length).toBe(before + 1);
    }
    expect(moments).toEqual([5, 305, 2105, 9305, 27305, 63305, 113705, 185705, 272105]);
    const [delivery] = await harness.deliveries(connection.connectionId);
    expect([delivery!.state, delivery!.attempts.length, receiver.requests.length]).toEqual([
      "failed",
      10,
      10,
    ]);
    expect(receiver.requests.every(({ faults }) => faults.length === 0)).toBe(true);
  });

  test("is suspended after 120 h: what waits is held, later events too, and all of it is sent on resuming", async () => {
    const connection = await connect();
    receiver.reply = () => 500;
    await deny(connection, "first");
    await harness.run();
    harness.clock.advance(100 * 3600);
    await deny(connection, "second");
    await harness.run();
    harness.clock.advance(20 * 3600);
    await harness.deliver();
    expect(await states(connection)).toEqual(["held", "held"]);
    await deny(connection, "third");
    const before = receiver.requests.length;
    harness.clock.advance(3600);
    await harness.run();
    expect([receiver.requests.length, await states(connection)]).toEqual([before, ["held", "held", "held"]]);
    receiver.reply = () => 204;
    await home.database.transaction((tx) =>
      resumeEndpoint(tx, connection.connectionId, "replay", harness.clock.now()),
    );
    await harness.deliver();
    expect(await states(connection)).toEqual(["delivered", "delivered", "delivered"]);
    expect(new Set(requestIds())).toEqual(new Set(["first", "second", "third"]));
  });

  test("that said 410 gets nothing more, and what was held can be discarded", async () => {
    const connection = await connect();
    receiver.reply = () => 410;
    await deny(connection, "first");
    await harness.run();
    await deny(connection, "second");
    await harness.run();
    expect([receiver.requests.length, await states(connection)]).toEqual([1, ["held", "held"]]);
    const now = harness.clock.now();
    await home.database.transaction((tx) => resumeEndpoint(tx, connection.connectionId, "discard", now));
    receiver.reply = () => 204;
    await deny(connection, "third");
    await harness.run();
    expect(await states(connection)).toEqual(["cancelled", "cancelled", "delivered"]);
    expect(requestIds()).toEqual(["first", "third"]);
  });

  test("is resumed by a new callback URL, which gets what was held", async () => {
    const connection = await connect();
    receiver.reply = () => 410;
    await deny(connection, "first");
    await harness.run();
    const callbacks = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });
    const deps = { db: home.database, callbacks, clock: harness.clock };
    const url = receiver.url.replace("/hook", "/new");
    await setCallback(deps, connection.accountId, connection.connectionId, url);
    receiver.reply = () => 204;
    await harness.deliver();
    expect(receiver.requests.map(({ path }) => path)).toEqual(["/hook", "/new"]);
    expect(await states(connection)).toEqual(["delivered"]);
  });

  test("does not use up attempts while the breaker is open, and gets one probe when it ends", async () => {
    const connection = await connect();
    receiver.reply = () => 500;
    for (let n = 0; n < 8; n++) await deny(connection, `req-${n}`);
    await harness.run();
    expect(receiver.requests.length).toBe(5);
    await home.database("webhook_endpoints").update({ concurrency: 8 });
    harness.clock.advance(59.999);
    await harness.deliver();
    expect(receiver.requests.length).toBe(5);
    harness.clock.advance(0.001);
    await harness.deliver();
    expect(receiver.requests.length).toBe(6);
    harness.clock.advance(119.999);
    await harness.deliver();
    expect(receiver.requests.length).toBe(6);
    receiver.reply = () => 204;
    harness.clock.advance(0.001);
    await harness.deliver();
    expect(await states(connection)).toEqual(Array(8).fill("delivered"));
    expect(receiver.requests.length).toBe(14);
  });
});

describe("order and isolation", () => {
  test("a receiver that accepts everything gets a connection's events in their order, one at a time", async () => {
    const connection = await connect();
    receiver.reply = async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
      return 204;
    };
    const ids = Array.from({ length: 30 }, (_, n) => `req-${n}`);
    for (const id of ids) await deny(connection, id);
    await harness.run();
    expect(requestIds()).toEqual(ids);
    expect(receiver.mostOpen).toBe(1);
  });

  test("one event that fails does not hold up those after it", async () => {
    const connection = await connect();
    receiver.reply = ({ event }) => (event.request_id === "bad" ? 500 : 204);
    for (const id of ["bad", "one", "two"]) await deny(connection, id);
    await harness.run();
    expect(await states(connection)).toEqual(["pending", "delivered", "delivered"]);
  });

  test("an endpoint gets as many requests at once as its limit says", async () => {
    const connection = await connect();
    receiver.reply = () => 404;
    for (let n = 0; n < 20; n++) await deny(connection, `req-${n}`);
    await harness.run();
    const now = harness.clock.now();
    await home
      .database("webhook_deliveries")
      .update({ state: "pending", settled_at: null, next_attempt_at: now });
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    receiver.mostOpen = 0;
    receiver.reply = async () => {
      if (receiver.open === 4) setTimeout(release, 100);
      await gate;
      return 404;
    };
    await harness.deliver();
    expect(receiver.mostOpen).toBe(4);
    expect(receiver.requests.length).toBe(40);
  });

  test("no more requests are under way at once than the process may have", async () => {
    harness = await startHarness(home, { limit: 3 });
    const connections = await Promise.all(Array.from({ length: 10 }, () => connect()));
    for (const connection of connections) await deny(connection);
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    receiver.reply = async () => {
      if (receiver.open === 3) setTimeout(release, 100);
      await gate;
      return 204;
    };
    await harness.run();
    expect([receiver.mostOpen, receiver.requests.length]).toEqual([3, 10]);
  });

  test("endpoints take turns: one with many events does not keep the others waiting", async () => {
    harness = await startHarness(home, { limit: 2 });
    const busy = await connect();
    for (let n = 0; n < 20; n++) await deny(busy, "busy");
    const quiet = await Promise.all(Array.from({ length: 4 }, () => connect()));
    for (const connection of quiet) await deny(connection, "quiet");
    await harness.run();
    const lastQuiet = requestIds().lastIndexOf("quiet");
    expect(
      requestIds()
        .slice(0, lastQuiet)
        .filter((id) => id === "busy").length,
    ).toBeLessThanOrEqual(4);
    expect(receiver.requests.length).toBe(24);
  });
});

import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { claimDeliveries, reapLost } from "../../src/webhooks/claim.ts";
import { resumeEndpoint } from "../../src/webhooks/endpoint.ts";
import { recordAttempt } from "../../src/webhooks/record_attempt.ts";
import type { Sent } from "../../src/webhooks/retries_and_suspension.ts";
import { makeConnection, type TestConnection } from "../events/support/connection.ts";
import { useDatabase } from "../events/support/database.ts";
import { append, deniedEvent } from "../events/support/events.ts";
import { type Harness, startHarness } from "../events/support/harness.ts";
import { type Receiver, startReceiver } from "../events/support/receiver.ts";

const home = useDatabase();
let harness: Harness;
const now = () => harness.clock.now();

beforeEach(async () => {
  await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints cascade");
  harness = await startHarness(home);
});

/** Creates a connection with deliveries that wait for their second attempt. */
async function withRetries(count: number): Promise<TestConnection> {
  const connection = await makeConnection(home.database, "http://127.0.0.1:8/");
  await home.database.transaction(async (tx) => {
    for (let n = 0; n < count; n++) await append(tx, deniedEvent(connection, `req-${n}`), now());
  });
  await harness.relay();
  await home.database("webhook_deliveries").where({ attempts: 0 }).update({ attempts: 1 });
  return connection;
}

const countBy = (ids: string[]) => {
  const counts = new Map<string, number>();
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
};

test("a claim takes the first delivery of every endpoint before the second delivery of any endpoint", async () => {
  for (let n = 0; n < 3; n++) await withRetries(4);
  const claimed = await claimDeliveries(home.database, 6, now());
  const perEndpoint = countBy(claimed.map((each) => each.endpoint_id));
  expect([...perEndpoint.values()]).toEqual([2, 2, 2]);
});

test("a claim first serves the endpoint that has waited longest", async () => {
  const connections = [await withRetries(4), await withRetries(4), await withRetries(4)];
  const served: string[] = [];
  for (let n = 0; n < 6; n++) {
    const [claimed] = await claimDeliveries(home.database, 1, now());
    served.push(claimed!.connection_id);
    harness.clock.advance(1);
  }
  expect(new Set(served.slice(0, 3))).toEqual(new Set(connections.map((each) => each.connectionId)));
  expect(served.slice(3)).toEqual(served.slice(0, 3));
});

test("a claim prefers a new delivery to resent deliveries, unless the limit is one request", async () => {
  const connection = await withRetries(20);
  harness.clock.advance(1);
  await append(home.database, deniedEvent(connection, "new"), now());
  await harness.relay();
  const claimed = async (free: number) =>
    (await claimDeliveries(home.database, free, now())).map(({ attempts }) => attempts).sort();
  await home.database("webhook_endpoints").update({ concurrency: 1 });
  expect(await claimed(10)).toEqual([2]);
  await home.database("webhook_endpoints").update({ concurrency: 3 });
  expect(await claimed(1)).toEqual([1]);
  expect(await claimed(10)).toEqual([2]);
});

test("a claim takes nothing for an endpoint that has reached its limit of concurrent requests", async () => {
  await withRetries(6);
  expect((await claimDeliveries(home.database, 256, now())).length).toBe(4);
  expect((await claimDeliveries(home.database, 256, now())).length).toBe(0);
  await home.database("webhook_endpoints").update({ concurrency: 5 });
  expect((await claimDeliveries(home.database, 256, now())).length).toBe(1);
});

test("a claim takes no delivery before it is due", async () => {
  await withRetries(1);
  await home.database("webhook_deliveries").update({ next_attempt_at: addSeconds(now(), 1) });
  harness.clock.advance(0.999);
  expect((await claimDeliveries(home.database, 1, now())).length).toBe(0);
  harness.clock.advance(0.001);
  expect((await claimDeliveries(home.database, 1, now())).length).toBe(1);
});

test("a claim takes nothing for a suspended endpoint", async () => {
  await withRetries(1);
  await home
    .database("webhook_endpoints")
    .update({ state: "suspended", suspended_at: now(), suspend_reason: "failing" });
  expect((await claimDeliveries(home.database, 1, now())).length).toBe(0);
});

test("a worker never claims a delivery that a concurrent worker has just tried and postponed", async () => {
  await withRetries(400);
  const at = now();
  const taken: string[] = [];

  async function putOff(ids: string[]): Promise<void> {
    await home
      .database("webhook_deliveries")
      .whereIn("delivery_id", ids)
      .update({
        state: "pending",
        lease_token: null,
        lease_until: null,
        next_attempt_at: addSeconds(at, 3600),
      });
  }
  async function work(): Promise<void> {
    let idle = 0;
    while (idle < 20) {
      const claimed = await claimDeliveries(home.database, 256, at);
      idle = claimed.length === 0 ? idle + 1 : 0;
      const ids = claimed.map((each) => each.delivery_id);
      taken.push(...ids);
      await putOff(ids);
    }
  }
  await Promise.all(Array.from({ length: 12 }, work));
  expect([...countBy(taken)].filter(([, count]) => count > 1)).toEqual([]);
  expect(new Set(taken).size).toBe(400);
});

describe("if a worker dies or is slow,", () => {
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  let receiver: Receiver;
  let connection: TestConnection;

  beforeEach(async () => {
    lines.length = 0;
    harness = await startHarness(home, { log });
    receiver = await startReceiver(() => now().getTime());
    connection = await makeConnection(home.database, receiver.url);
    receiver.secret = connection.secret;
    await append(home.database, deniedEvent(connection, "req-1"), now());
    await harness.relay();
  });
  afterEach(() => receiver.close());

  const claimAndDie = async () => (await claimDeliveries(home.database, 1, now()))[0]!;
  const delivery = async () => (await harness.deliveries(connection.connectionId))[0]!;
  const ok: Sent = { status: 204, retryAfter: undefined, excerpt: Buffer.alloc(0) };

  test("a delivery becomes free exactly when its claim expires", async () => {
    await claimAndDie();
    harness.clock.advance(59.999);
    expect(await reapLost(home.database, now())).toBe(0);
    await harness.deliver();
    expect(receiver.requests.length).toBe(0);
    harness.clock.advance(0.001);
    expect(await reapLost(home.database, now())).toBe(1);
    await harness.deliver();
    expect(await delivery()).toMatchObject({
      state: "delivered",
      attempts: [{ outcome: "lost", status: null }, { outcome: "delivered" }],
    });
    expect(receiver.requests.map(({ faults }) => faults)).toEqual([[]]);
  });

  test("a late result changes nothing", async () => {
    const claimed = await claimAndDie();
    harness.clock.advance(60);
    await reapLost(home.database, now());
    const attempted = { delivery: claimed, sent: ok, startedAt: now(), endedAt: now(), random: 0.5 };
    expect(await recordAttempt(home.database, attempted)).toBe("stale");
    expect(await delivery()).toMatchObject({ state: "pending", attempts: [{ outcome: "lost" }] });
  });

  test("a result that is written twice counts once", async () => {
    const claimed = await claimAndDie();
    const attempted = { delivery: claimed, sent: ok, startedAt: now(), endedAt: now(), random: 0.5 };
    expect(await recordAttempt(home.database, attempted)).toEqual({
      state: "delivered",
      verdict: "delivered",
      suspended: false,
    });
    expect(await recordAttempt(home.database, attempted)).toBe("stale");
    const [endpoint] = await home.database("webhook_endpoints");
    expect([(await delivery()).attempts.length, endpoint!.window_attempts]).toEqual([1, 1]);
  });

  test("the late result of a slow worker is logged, and another worker delivers", async () => {
    let answer = () => {};
    receiver.reply = async (_request, _response, nth) => {
      if (nth === 1) {
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
      }
      return 204;
    };
    const slow = harness.deliver();
    await expect.poll(() => receiver.open).toBe(1);
    harness.clock.advance(60);
    await reapLost(home.database, now());
    const other = await startHarness(home);
    other.clock.set(now());
    await other.deliver();
    answer();
    await slow;
    expect(lines).toEqual(["a result came after its claim had ended"]);
    expect(await delivery()).toMatchObject({
      state: "delivered",
      attempts: [{ outcome: "lost" }, { outcome: "delivered" }],
    });
  });

  test("a delivery fails after 20 attempts if its worker dies each time", async () => {
    for (let round = 0; round < 20; round++) {
      expect((await delivery()).state).toBe("pending");
      await claimAndDie();
      harness.clock.advance(60);
      await reapLost(home.database, now());
    }
    const { state, attempts } = await delivery();
    expect([state, attempts.length, receiver.requests.length]).toEqual(["failed", 20, 0]);
  });

  test("a delivery that was lost during a suspension is held, and sent after the resume", async () => {
    await claimAndDie();
    await home
      .database("webhook_endpoints")
      .update({ state: "suspended", suspended_at: now(), suspend_reason: "failing" });
    harness.clock.advance(60);
    await reapLost(home.database, now());
    expect((await delivery()).state).toBe("held");
    await home.database.transaction((tx) => resumeEndpoint(tx, connection.connectionId, "replay", now()));
    await harness.deliver();
    expect((await delivery()).state).toBe("delivered");
  });

  test("two workers never claim the same delivery or exceed an endpoint's limit", async () => {
    await claimAndDie();
    await home.database("webhook_deliveries").delete();
    for (let n = 0; n < 30; n++) await append(home.database, deniedEvent(connection, `req-${n}`), now());
    await harness.relay();
    await home.database("webhook_deliveries").update({ attempts: 1 });
    const claims = await Promise.all(
      Array.from({ length: 8 }, () => claimDeliveries(home.database, 256, now())),
    );
    const ids = claims.flat().map((claimed) => claimed.delivery_id);
    expect([ids.length, new Set(ids).size]).toEqual([4, 4]);
  });
});

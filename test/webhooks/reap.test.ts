import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
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
const lines: string[] = [];
const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
let harness: Harness;
let receiver: Receiver;
let connection: TestConnection;

beforeEach(async () => {
  await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints cascade");
  lines.length = 0;
  harness = await startHarness(home, { log });
  receiver = await startReceiver(() => harness.clock.now().getTime());
  connection = await makeConnection(home.database, receiver.url);
  receiver.secret = connection.secret;
  await append(home.database, deniedEvent(connection, "req-1"), harness.clock.now());
  await harness.relay();
});
afterEach(() => receiver.close());

const now = () => harness.clock.now();
/** A worker claims the delivery and dies. */
const claimAndDie = async () => (await claimDeliveries(home.database, 1, now()))[0]!;
const delivery = async () => (await harness.deliveries(connection.connectionId))[0]!;
const ok: Sent = { status: 204, retryAfter: undefined, excerpt: Buffer.alloc(0) };

test("a delivery whose worker died is free again when its claim has ended, not a moment before", async () => {
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

test("a result that comes after the claim ended changes nothing", async () => {
  const claimed = await claimAndDie();
  harness.clock.advance(60);
  await reapLost(home.database, now());
  const attempted = { delivery: claimed, sent: ok, startedAt: now(), endedAt: now(), random: 0.5 };
  expect(await recordAttempt(home.database, attempted)).toBe("stale");
  expect(await delivery()).toMatchObject({ state: "pending", attempts: [{ outcome: "lost" }] });
});

test("a result written twice counts once", async () => {
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

test("a slow worker's late result is logged, and the delivery is made by the other one", async () => {
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

test("a delivery that is lost again and again fails after 20 attempts", async () => {
  for (let round = 0; round < 20; round++) {
    expect((await delivery()).state).toBe("pending");
    await claimAndDie();
    harness.clock.advance(60);
    await reapLost(home.database, now());
  }
  const { state, attempts } = await delivery();
  expect([state, attempts.length, receiver.requests.length]).toEqual(["failed", 20, 0]);
});

test("a delivery lost while its endpoint was suspended is held, and sent on resuming", async () => {
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

test("two workers never claim the same delivery, nor more of one endpoint than its limit", async () => {
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

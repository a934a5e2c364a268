import { Pool } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { claimDeliveries } from "../../src/webhooks/claim.ts";
import { endpointIdOf, stepBacklogs } from "../../src/webhooks/endpoint.ts";
import { NOTICES_PER_DAY, noticeSuspension, recordAttempt } from "../../src/webhooks/record_attempt.ts";
import { resendDelivery, stepRecovery } from "../../src/webhooks/resend_and_recover.ts";
import { makeConnection, type TestConnection } from "../events/support/connection.ts";
import { insertDelivery, insertRecovery } from "../support/deliveries.ts";
import { heldRows } from "../support/held_rows.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
let pool: Pool;
let connection: TestConnection;
let endpointId: string;
beforeAll(() => {
  pool = new Pool({ connectionString: world.home.url, max: 2 });
});
afterAll(() => pool.end());
beforeEach(async () => {
  connection = await world.connect();
  endpointId = endpointIdOf(connection.connectionId);
});
const { hold, untilBlocked } = heldRows(() => pool);

const now = () => world.harness.clock.now();
const PAUSE = "update webhook_endpoints set state = 'paused', paused_at = now() where endpoint_id = $1";
const RESUME = "update webhook_endpoints set state = 'active', paused_at = null where endpoint_id = $1";

/** Makes a call while another transaction has made a change. Commits when the call waits or has ended. */
async function during<T>([text, ...values]: [string, ...unknown[]], call: () => Promise<T>): Promise<T> {
  const held = await hold(text, values);
  const called = call();
  await Promise.race([called, untilBlocked()]);
  await held.commit();
  return called;
}

const endpoint = () => world.home.database("webhook_endpoints").where({ endpoint_id: endpointId }).first();
const put = (change: Partial<Parameters<typeof insertDelivery>[2]> = {}) =>
  insertDelivery(world.home.database, connection.connectionId, { at: now(), ...change });

/** Returns a call that records the result of a claimed delivery. */
async function attempt(status: number) {
  await put({ state: "pending", attempts: 0 });
  const [delivery] = await claimDeliveries(world.home.database, 1, now());
  if (delivery === undefined) throw new Error("nothing was claimed");
  const sent = { status, retryAfter: undefined, excerpt: Buffer.of() };
  const times = { startedAt: now(), endedAt: now(), random: 0.5 };
  const record = () => recordAttempt(world.home.database, { delivery, sent, ...times });
  return { id: delivery.delivery_id, record };
}

describe("a result that is written at the same moment as another change", () => {
  test("adds its failure to the failures that are committed meanwhile", async () => {
    const { record } = await attempt(500);
    const change = "update webhook_endpoints set failures_in_row = 3 where endpoint_id = $1";
    expect(await during([change, endpointId], record)).toMatchObject({ verdict: "failed" });
    expect(await endpoint()).toMatchObject({ failures_in_row: 4 });
  });

  test("leaves its delivery held if the endpoint is paused meanwhile", async () => {
    const { record } = await attempt(500);
    expect(await during([PAUSE, endpointId], record)).toMatchObject({ state: "held" });
    expect(await endpoint()).toMatchObject({ state: "paused" });
  });

  test("changes nothing if another worker frees the delivery meanwhile", async () => {
    const { id, record } = await attempt(500);
    const free = `update webhook_deliveries set state = 'pending', next_attempt_at = now(), lease_token = null,
      lease_until = null where delivery_id = $1`;
    expect(await during([free, id], record)).toBe("stale");
    expect(await world.home.database("webhook_attempts")).toEqual([]);
  });

  test("triggers no email if another suspension has used up the account's emails meanwhile", async () => {
    const others = Array.from({ length: NOTICES_PER_DAY + 1 }, () =>
      makeConnection(world.home.database, null),
    );
    const [first, ...rest] = (await Promise.all(others)).map(({ connectionId }) => connectionId);
    const { accountId: account_id } = connection;
    const { database } = world.home;
    await database("connections")
      .whereIn("connection_id", [first, ...rest] as string[])
      .update({ account_id });
    const suspended = { state: "suspended", suspended_at: now(), suspend_reason: "gone" } as const;
    for (const id of [first, ...rest] as string[]) await insertDelivery(database, id, { at: now() });
    await database("webhook_endpoints").update(suspended);
    const change = `with locked as (select from balances where account_id = $1 for no key update)
      update webhook_endpoints e set noticed_at = $2 from locked, connections c
      where c.connection_id = e.connection_id and c.connection_id = any ($3)`;
    await during([change, account_id, now(), rest], () =>
      database.transaction((tx) => noticeSuspension(tx, endpointIdOf(first as string), now())),
    );
    expect(await database("outbox").where({ aggregateid: account_id })).toEqual([]);
  });
});

describe("a delivery", () => {
  test("becomes held if its endpoint is paused meanwhile", async () => {
    await put();
    await world.deny(connection);
    await during([PAUSE, endpointId], () => world.harness.relay());
    expect((await world.states(connection)).sort()).toEqual(["failed", "held"]);
  });

  test("stays unclaimed while another transaction changes its endpoint", async () => {
    await put({ state: "pending", attempts: 0 });
    const claim = () => claimDeliveries(world.home.database, 1, now());
    expect(await during([PAUSE, endpointId], claim)).toEqual([]);
  });

  test("stays pending if its endpoint is resumed while the backlog is held", async () => {
    await put({ state: "pending", attempts: 0 });
    await world.home.database.raw(PAUSE.replace("$1", "?"), [endpointId]);
    const { database } = world.home;
    await during([RESUME, endpointId], () => stepBacklogs({ database, clock: world.harness.clock }));
    expect(await world.states(connection)).toEqual(["pending"]);
  });

  test.each([
    ["callback_inactive", "if its endpoint is paused meanwhile", PAUSE, () => endpointId],
    [
      "delivery_under_way",
      "if it is resent meanwhile",
      `update webhook_deliveries set state = 'pending', settled_at = null, next_attempt_at = created_at
       where delivery_id = $1`,
      (id: string) => id,
    ],
  ])("refuses a resend with %s %s", async (refusal, _, change, idOf) => {
    const id = await put();
    const resend = () => world.home.database.transaction((tx) => resendDelivery(tx, endpointId, id, now()));
    expect(await during([change, idOf(id)], resend)).toBe(refusal);
  });

  test("waits during a recovery that another worker steps", async () => {
    const id = await put({ at: new Date(now().getTime() - 1000) });
    const recovery = await insertRecovery(world.home.database, connection.connectionId, {
      ...{ since: new Date(0), until: now() },
    });
    const { database } = world.home;
    const step = () => stepRecovery({ database, clock: world.harness.clock });
    await during(["select from webhook_recoveries where recovery_id = $1 for update", recovery], step);
    expect(await world.states(connection)).toEqual(["failed"]);
    await step();
    expect(
      await world.home.database("webhook_deliveries").where({ state: "pending" }).pluck("delivery_id"),
    ).toEqual([id]);
  });
});

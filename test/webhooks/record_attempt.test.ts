import { describe, expect, test } from "vitest";
import { readAccountEvent } from "../../src/events/kinds.ts";
import { shardOf } from "../../src/events/outbox.ts";
import { endpointIdOf, resumeEndpoint } from "../../src/webhooks/endpoint.ts";
import { NOTICES_PER_DAY, noticeSuspension } from "../../src/webhooks/record_attempt.ts";
import { makeConnection, type TestConnection } from "../events/support/connection.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, deny } = world;
const now = () => world.harness.clock.now();
const DAY = 24 * 60 * 60;

const noticesOf = async ({ accountId }: TestConnection) => {
  const rows = await world.home.database("outbox").where({ aggregateid: accountId }).orderBy("aggregate_seq");
  return rows.map((row) => readAccountEvent("webhook.suspended", row.payload));
};

/** Includes relayed events. */
const countOf = async ({ accountId }: TestConnection) => {
  const balance = await world.home.database("balances").where({ account_id: accountId }).first();
  return (balance?.next_event_seq ?? 0) - 1;
};

/** Suspends a connection's endpoint by a 410, after resuming it if necessary. */
async function suspend(connection: TestConnection): Promise<void> {
  const { database } = world.home;
  await database.transaction((tx) => resumeEndpoint(tx, connection.connectionId, "discard", now()));
  world.receiver.secret = connection.secret;
  world.receiver.reply = () => 410;
  await deny(connection);
  await world.harness.run();
  const endpoint = await database("webhook_endpoints")
    .where({ endpoint_id: endpointIdOf(connection.connectionId) })
    .first("state");
  expect(endpoint?.state).toBe("suspended");
}

async function siblings({ accountId }: TestConnection, count: number): Promise<TestConnection[]> {
  const connections = await Promise.all(
    Array.from({ length: count }, () => makeConnection(world.home.database, world.receiver.url)),
  );
  const ids = connections.map(({ connectionId }) => connectionId);
  await world.home.database("connections").whereIn("connection_id", ids).update({ account_id: accountId });
  return connections.map((connection) => ({ ...connection, accountId }));
}

describe("a suspension", () => {
  test("appends one account event in the same commit, with the account's next event number", async () => {
    const connection = await connect();
    const { accountId, connectionId } = connection;
    for (let n = 0; n < 3; n++) await deny(connection, `req-${n}`);
    world.receiver.reply = () => 410;
    await world.harness.run();
    expect(await noticesOf(connection)).toEqual([
      {
        type: "webhook.suspended",
        ...{ account_id: accountId, connection_id: connectionId },
        ...{ reason: "gone", occurred_at: now().toISOString() },
      },
    ]);
    const [row] = await world.home.database("outbox").where({ aggregateid: accountId });
    expect(row).toMatchObject({
      ...{ aggregatetype: "account", aggregate_seq: 1, type: "webhook.suspended", schema_version: 1 },
      ...{ shard: shardOf(accountId), created_at: now() },
    });
    const balance = await world.home.database("balances").where({ account_id: accountId }).first();
    expect(balance?.next_event_seq).toBe(2);
  });

  test('has the reason "failing" after 120 hours of failures', async () => {
    const connection = await connect();
    world.receiver.reply = () => 500;
    await deny(connection);
    await world.harness.run();
    world.harness.clock.advance(120 * 3600);
    await world.harness.deliver();
    expect(await noticesOf(connection)).toMatchObject([{ reason: "failing" }]);
  });

  test("triggers at most one email a day for an endpoint", async () => {
    const connection = await connect();
    await suspend(connection);
    await suspend(connection);
    world.harness.clock.advance(DAY - 1);
    await suspend(connection);
    expect(await countOf(connection)).toBe(1);
    world.harness.clock.advance(1);
    await suspend(connection);
    expect(await countOf(connection)).toBe(2);
  });

  test("triggers at most five emails a day for an account, not counting other accounts", async () => {
    const connection = await connect();
    await suspend(await connect());
    const others = await siblings(connection, NOTICES_PER_DAY);
    for (const each of [connection, ...others]) await suspend(each);
    expect(await countOf(connection)).toBe(NOTICES_PER_DAY);
    world.harness.clock.advance(DAY);
    for (const each of others) await suspend(each);
    expect(await countOf(connection)).toBe(2 * NOTICES_PER_DAY);
  });

  test("counts concurrent suspensions toward the daily limit", async () => {
    const connection = await connect();
    const all = [connection, ...(await siblings(connection, 2 * NOTICES_PER_DAY))];
    const { database } = world.home;
    for (const each of all) await deny(each);
    await world.harness.relay();
    await database("webhook_endpoints").update({
      ...{ state: "suspended", suspended_at: now(), suspend_reason: "gone" },
    });
    await Promise.all(
      all.map(({ connectionId }) =>
        database.transaction((tx) => noticeSuspension(tx, endpointIdOf(connectionId), now())),
      ),
    );
    expect(await countOf(connection)).toBe(NOTICES_PER_DAY);
  });

  test("triggers no email for a removed connection", async () => {
    const connection = await connect();
    const { database } = world.home;
    await deny(connection);
    const { connectionId } = connection;
    await database("connections").where({ connection_id: connectionId }).update({ removed_at: now() });
    world.receiver.reply = () => 410;
    await world.harness.run();
    expect(await noticesOf(connection)).toEqual([]);
  });
});

import { expect, test } from "vitest";
import type { Transaction } from "../../src/db/database.ts";
import { createWebhookConsumer } from "../../src/webhooks/consumer.ts";
import { endpointIdOf, pauseEndpoint, resumeEndpoint, stepBacklogs } from "../../src/webhooks/endpoint.ts";
import { busEvent } from "../events/describe_bus.ts";
import { secretBox, type TestConnection } from "../events/support/connection.ts";
import { insertDelivery } from "../support/deliveries.ts";
import { untilBlockedIn } from "../support/held_rows.ts";
import { deliveryWorld } from "./delivery_world.ts";

const world = deliveryWorld();
const { connect, deny, states } = world;
const now = () => world.harness.clock.now();

/** Pauses an endpoint in a transaction that stays open. */
async function beginPause({ connectionId }: TestConnection): Promise<Transaction> {
  const pausing = await world.home.database.transaction();
  await pauseEndpoint(pausing, connectionId, now());
  return pausing;
}

/** Commits the pause when `work` waits for it. Expects that the endpoint stays paused. */
async function expectWait(pausing: Transaction, connection: TestConnection, work: Promise<unknown>) {
  const { database } = world.home;
  const first = await Promise.race([
    untilBlockedIn(database).then(() => "waits"),
    work.then(() => "does not wait"),
  ]);
  await pausing.commit();
  await work;
  const own = { endpoint_id: endpointIdOf(connection.connectionId) };
  const [endpoint] = await database("webhook_endpoints").where(own).select("state");
  expect([first, endpoint?.state]).toEqual(["waits", "paused"]);
}

/** Returns a transaction whose insert of deliveries waits for `isFree`. Calls `reach` before. */
function beforeInsert(own: Transaction, reach: () => void, isFree: Promise<void>): Transaction {
  async function insertLater(text: string, values: never) {
    reach();
    await isFree;
    return own.raw(text, values);
  }
  const raw = (text: string, values: never) =>
    text.includes("insert into webhook_deliveries") ? insertLater(text, values) : own.raw(text, values);
  return new Proxy(own, { get: (_, name) => (name === "raw" ? raw : Reflect.get(own, name)) });
}

test("a pause waits for a delivery that is being created, and holds it", async () => {
  const connection = await connect();
  const { connectionId } = connection;
  await deny(connection, "first");
  await world.harness.run();
  const { database } = world.home;
  const { promise: isReached, resolve: reach } = Promise.withResolvers<void>();
  const { promise: isFree, resolve: release } = Promise.withResolvers<void>();
  const consumer = createWebhookConsumer({ secretBox, clock: world.harness.clock });
  const event = busEvent("second", { aggregateId: connectionId, aggregateSeq: 2 });
  const creating = database.transaction((tx) => consumer.handle(beforeInsert(tx, reach, isFree), [event]));
  await isReached;
  const pausing = database.transaction((tx) => pauseEndpoint(tx, connectionId, now()));
  const first = await Promise.race([
    untilBlockedIn(database).then(() => "waits"),
    pausing.then(() => "does not wait"),
  ]);
  release();
  await Promise.all([creating, pausing]);
  expect([first, await states(connection)]).toEqual(["waits", ["delivered", "held"]]);
});

test("the release of held deliveries waits for a pause that commits at the same time, and releases none", async () => {
  const connection = await connect();
  const { connectionId } = connection;
  const { database } = world.home;
  await database.transaction((tx) => pauseEndpoint(tx, connectionId, now()));
  await database.transaction((tx) => resumeEndpoint(tx, connectionId, "replay", now()));
  await insertDelivery(database, connectionId, { state: "held", at: now() });
  const pausing = await beginPause(connection);
  await expectWait(pausing, connection, stepBacklogs({ database, clock: world.harness.clock }));
  expect(await states(connection)).toEqual(["held"]);
});

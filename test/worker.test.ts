import { Registry } from "prom-client";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../src/clock.ts";
import { StartError } from "../src/config.ts";
import type { Bus } from "../src/events/bus.ts";
import type { EventCarrier } from "../src/events/carrier.ts";
import { type BusDeps, createLocalBus } from "../src/events/consume.ts";
import { append, createdEvent, deniedEvent } from "./events/support/events.ts";
import { isQuiet } from "./events/support/load.ts";
import { REAP_MS, TIMING, workerWorld } from "./events/support/worker_world.ts";
import { insertDelivery } from "./support/deliveries.ts";
import { until } from "./support/process.ts";

const world = workerWorld();
const requests = (count: number) =>
  world.stepUntil(`${count} requests`, () => world.receiver.requests.length === count);

function carrierOf(
  change: (deps: BusDeps) => Partial<Bus>,
  kind: EventCarrier["kind"] = "embedded",
): EventCarrier {
  return { kind, open: (deps) => ({ ...createLocalBus(deps), ...change(deps) }) };
}

describe("a running worker", () => {
  test("signs with SERVICE_WORD in the names of headers, and decrypts secrets with SEALING_KEY", async () => {
    world.start({ config: { SERVICE_WORD: "shopkeeper" } });
    await append(world.home.database, createdEvent(await world.connect(), "dpz_key"));
    await requests(1);
    const [request] = world.receiver.requests;
    expect(Object.keys(request?.headers ?? {})).toContain("x-shopkeeper-signature");
    expect(request?.event.api_key).toBe("dpz_key");
  });

  test.each([
    ["by plain HTTP outside DEVELOPMENT", { DEVELOPMENT: false }, "the scheme must be https"],
    [
      "to an address outside WEBHOOK_ALLOWED_CIDRS",
      { WEBHOOK_ALLOWED_CIDRS: ["10.0.0.0/8"] },
      "the host must be a name that is not this machine's own",
    ],
  ])("blocks deliveries %s", async (_, config, detail) => {
    world.start({ config });
    await append(world.home.database, deniedEvent(await world.connect(), "req-0"));
    const attempts = () => world.home.database("webhook_attempts").select("outcome", "detail");
    await world.stepUntil("an attempt", async () => (await attempts()).length === 1);
    expect([await attempts(), world.receiver.requests]).toEqual([[{ outcome: "blocked", detail }], []]);
  });

  test("reserves shards for LEASE_SECONDS and deliveries for CLAIM_SECONDS", async () => {
    world.start();
    await append(world.home.database, deniedEvent(await world.connect(), "req-0"));
    const answer = Promise.withResolvers<number>();
    world.receiver.reply = () => answer.promise;
    await requests(1);
    const [delivery] = await world.home.database("webhook_deliveries");
    const { rows } = await world.home.database.raw(
      `select extract(epoch from alive_until - now())::float as alive,
              (select extract(epoch from min(held_until) - now())::float from relay_shards) as held from relay_workers`,
    );
    answer.resolve(204);
    expect(delivery?.lease_until).toEqual(addSeconds(world.clock.now(), TIMING.claimSeconds));
    for (const seconds of [rows[0].alive, rows[0].held]) {
      expect(seconds).toBeGreaterThan(TIMING.leaseSeconds / 2);
      // The clocks of process and database can differ by some milliseconds.
      expect(seconds).toBeLessThan(TIMING.leaseSeconds + 1);
    }
  });

  test("opens the bus of its carrier with its own id, lease, clock, metrics and 16 database connections", async () => {
    let opened: BusDeps | undefined;
    const carrier = carrierOf((deps) => {
      opened = deps;
      return {};
    });
    world.start({ carrier, metrics: { registry: new Registry() } });
    await world.idle();
    const { database, measure, measurements, ...deps } = opened as BusDeps;
    expect(deps).toMatchObject({ clock: world.clock, leaseSeconds: TIMING.leaseSeconds });
    expect(await world.home.database("relay_workers").pluck("worker_id")).toEqual([deps.workerId]);
    expect([measure, measurements]).toEqual([expect.anything(), expect.anything()]);
    expect(database.client.pool.max).toBe(16);
    const shown = async (setting: string) => (await database.raw(`show ${setting}`)).rows[0][setting];
    expect(await shown("idle_in_transaction_session_timeout")).toBe("10s");
    expect([await shown("statement_timeout"), await shown("lock_timeout")]).toEqual(["0", "0"]);
    const connection = await database.client.acquireConnection();
    expect(connection.connection.stream.timeout).toBe(120_000);
    await database.client.releaseConnection(connection);
  });

  test("sends without a pause after a call of wake, a new delivery, a finished delivery, and a freed delivery", async () => {
    const worker = world.start();
    await world.idle();
    const connection = await world.connect();
    for (const id of ["req-0", "req-1"]) await append(world.home.database, deniedEvent(connection, id));
    expect(await world.home.database("outbox")).toHaveLength(2);
    worker.wake();
    await until("both are delivered", () => isQuiet(world.home.database));
    expect(world.receiver.requests).toHaveLength(2);
    const lost = await insertDelivery(world.home.database, connection.connectionId, {
      ...{ state: "sending", at: addSeconds(world.clock.now(), -60) },
    });
    await world.idle();
    world.pauses.end(REAP_MS);
    await until("the lost one is sent", async () => (await world.stateOf(lost)) === "delivered");
  });

  test("gives up half of its shards when another worker starts", async () => {
    world.start();
    await world.idle();
    world.start();
    const held = async () =>
      (await world.home.database("relay_shards").whereNotNull("owner").groupBy("owner").count()).map(
        ({ count }) => Number(count),
      );
    await world.stepUntil("they share the shards", async () => (await held()).join() === "4,4");
  });

  test("subscribes both consumers once, although the first attempt of each fails", async () => {
    const tries: string[] = [];
    const carrier = carrierOf(() => ({
      async subscribe({ name }) {
        tries.push(name);
        if (tries.filter((each) => each === name).length === 1) throw new Error("away");
      },
    }));
    world.start({ carrier });
    await world.stepUntil("4 tries", () => tries.length === 4);
    await world.step();
    expect(tries).toEqual(["webhooks", "webhooks", "notices", "notices"]);
  });

  test("relays nothing and ends when another worker records a different EVENTS", async () => {
    const fatal: Error[] = [];
    world.start({ fatal: (error) => fatal.push(error) });
    await world.idle();
    await world.home.database("event_way").update({ way: "kafka" });
    await append(world.home.database, deniedEvent(await world.connect(), "req-0"));
    await world.step();
    await world.home.database("event_way").update({ way: "embedded" });
    expect(fatal).toEqual([expect.any(StartError)]);
    expect([await world.home.database("outbox"), world.receiver.requests]).toMatchObject([{ length: 1 }, []]);
  });

  test("keeps events that it relayed to Kafka", async () => {
    world.start({ carrier: carrierOf(() => ({}), "kafka") });
    await world.idle();
    await append(world.home.database, deniedEvent(await world.connect(), "req-0"));
    await requests(1);
    const kept = await world.home.database("published_events").delete().returning("type");
    await world.home.database("event_way").update({ way: "embedded" });
    expect(kept).toEqual([{ type: "delegation.denied" }]);
  });

  test("becomes ready only if its schema is usable and its bus is healthy", async () => {
    let ok = true;
    const worker = world.start({ carrier: carrierOf(() => ({ health: async () => ({ ok }) })) });
    const isReady = async () => (await worker.health()).ok;
    expect(await isReady()).toBe(true);
    ok = false;
    expect(await isReady()).toBe(false);
    ok = true;
    const undone = await world.home
      .database("schema_migrations")
      .where({ id: world.home.database("schema_migrations").max("id") })
      .delete()
      .returning("*");
    expect(await isReady()).toBe(false);
    await world.home.database("schema_migrations").insert(undone);
    expect(await isReady()).toBe(true);
  });
});

describe("a stopping worker", () => {
  test("ends all loops, releases its shards, and closes its database connections", async () => {
    const worker = world.start();
    await world.idle();
    await worker.stop();
    expect(world.pauses.waiting()).toEqual([]);
    expect(await world.home.database("relay_shards").whereNotNull("owner")).toEqual([]);
    expect(await world.home.database("relay_workers")).toEqual([]);
    const connections =
      "select from pg_stat_activity where application_name = 'deputize-worker' and datname = current_database()";
    await until(
      "no connection is open",
      async () => (await world.home.database.raw(connections)).rowCount === 0,
    );
  });

  test("stops even if it cannot release its shards, and logs this", async () => {
    const worker = world.start();
    await world.idle();
    await world.home.database.raw("alter table relay_workers rename to hidden_workers");
    await worker.stop();
    await world.home.database.raw("alter table hidden_workers rename to relay_workers");
    expect(world.lines.map(({ msg }) => msg)).toEqual(["shards not released"]);
    await world.home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
    await world.home.database("relay_workers").delete();
  });
});

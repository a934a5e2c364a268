import { randomUUID } from "node:crypto";
import { Registry } from "prom-client";
import { beforeEach, describe, expect, test } from "vitest";
import { readReconciliation } from "../src/accounts/ledger/reconcile.ts";
import { setChannel } from "../src/channels/channel.ts";
import { addSeconds } from "../src/clock.ts";
import { appendAccountEvent } from "../src/events/outbox.ts";
import { secretBox, type TestConnection } from "./events/support/connection.ts";
import {
  HOUR_MS,
  LOOPS,
  MEASURE_MS,
  REAP_MS,
  RENEW_MS,
  TIMING,
  workerWorld,
} from "./events/support/worker_world.ts";
import { insertDelivery, insertRecovery } from "./support/deliveries.ts";
import { until } from "./support/process.ts";

const world = workerWorld();

type Work = {
  title: string;
  /** The length of the pause after which the loop does this again. Default: any pause. */
  pause?: number;
  prepare(connection: TestConnection): Promise<void>;
  isDone(connection: TestConnection): Promise<boolean>;
};

let registry: Registry;
let id = "";
const metric = async (name: string) =>
  Number(
    (await registry.metrics())
      .split("\n")
      .find((line) => line.startsWith(`${name} `))
      ?.split(" ")
      .at(-1),
  );

const WORK: Work[] = [
  {
    title: "turns account events into notices",
    async prepare({ accountId, connectionId }) {
      const fields = { account_id: accountId, connection_id: connectionId, reason: "gone" as const };
      const event = {
        type: "webhook.suspended" as const,
        ...fields,
        occurred_at: world.clock.now().toISOString(),
      };
      await world.home.database.transaction((tx) => appendAccountEvent(tx, event, world.clock.now()));
    },
    isDone: async ({ accountId }) =>
      (await world.home.database("notices").where({ account_id: accountId })).length === 1,
  },
  {
    title: "sends deliveries that became due",
    async prepare({ connectionId }) {
      id = await insertDelivery(world.home.database, connectionId, {
        state: "pending",
        at: world.clock.now(),
      });
    },
    isDone: async () => (await world.stateOf(id)) === "delivered",
  },
  {
    title: "posts to channels every 5 seconds",
    pause: 5_000,
    async prepare({ accountId }) {
      const channel = {
        accountId,
        setBy: accountId,
        app: "slack" as const,
        root: "https://deputize.example.com",
      };
      const url = new URL(world.receiver.url);
      const { database } = world.home;
      await database.transaction((tx) => setChannel(tx, secretBox, { ...channel, url }, world.clock.now()));
    },
    isDone: async () => world.receiver.requests.some(({ body }) => body.includes("will appear here")),
  },
  {
    title: "frees deliveries of dead workers",
    pause: REAP_MS,
    async prepare({ connectionId }) {
      const at = addSeconds(world.clock.now(), -60);
      id = await insertDelivery(world.home.database, connectionId, { state: "sending", at, lease_until: at });
    },
    async isDone() {
      const attempt = await world.home
        .database("webhook_attempts")
        .where({ delivery_id: id, outcome: "lost" })
        .first();
      if (attempt === undefined) return false;
      return attempt.ended_at.getTime() - attempt.started_at.getTime() === TIMING.claimSeconds * 1000;
    },
  },
  {
    title: "releases a backlog",
    async prepare({ connectionId }) {
      id = await insertDelivery(world.home.database, connectionId, { state: "held", at: world.clock.now() });
    },
    isDone: async () => (await world.stateOf(id)) === "delivered",
  },
  {
    title: "carries out recoveries",
    async prepare({ connectionId }) {
      const at = addSeconds(world.clock.now(), -60);
      id = await insertDelivery(world.home.database, connectionId, { state: "failed", at });
      await insertRecovery(world.home.database, connectionId, { since: at, until: world.clock.now() });
    },
    isDone: async () => (await world.stateOf(id)) === "delivered",
  },
  {
    title: "ends removed connections",
    prepare: async ({ connectionId: connection_id }) =>
      void (await world.home
        .database("connections")
        .where({ connection_id })
        .update({ removed_at: new Date(), end_due_at: new Date(0) })),
    isDone: async ({ connectionId: connection_id }) =>
      (await world.home.database("connections").where({ connection_id }).first())?.end_due_at === null,
  },
  {
    title: "removes several pages of old rows in one run, each hour",
    pause: HOUR_MS,
    async prepare() {
      await world.home.database.raw(
        `insert into inbox select 'old', gen_random_uuid(), now() - interval '20 days' from generate_series(1, 2001)`,
      );
    },
    isDone: async () => (await world.home.database("inbox").where({ consumer: "old" })).length === 0,
  },
  {
    title: "reconciles the ledger each hour",
    pause: HOUR_MS,
    prepare: async () => world.clock.advance(3600),
    isDone: async () =>
      (await readReconciliation(world.home.database))?.at.getTime() === world.clock.now().getTime() &&
      !Number.isNaN(await metric("deputize_ledger_accounts")),
  },
  {
    title: "renews its leases three times per term",
    pause: RENEW_MS,
    prepare: async () =>
      void (await world.home.database("relay_workers").update({ alive_until: new Date(0) })),
    isDone: async () =>
      (await world.home.database("relay_workers").where("alive_until", ">", new Date())).length === 1,
  },
  {
    title: "measures every 15 seconds",
    pause: MEASURE_MS,
    async prepare() {
      const letter = { consumer: "webhooks", event_id: randomUUID(), event: "{}", reason: "no" };
      await world.home.database("dead_letters").insert({ ...letter, created_at: world.clock.now() });
    },
    isDone: async () => (await metric('deputize_dead_letters{consumer="webhooks"}')) === 1,
  },
];

beforeEach(() => {
  registry = new Registry();
});

describe("a running worker", () => {
  test.each(WORK)("$title", async ({ pause, prepare, isDone }) => {
    world.start({ metrics: { registry } });
    await world.idle();
    const connection = await world.connect();
    await prepare(connection);
    expect(await isDone(connection)).toBe(false);
    world.pauses.end(pause);
    await until("it is done", async () => {
      if (pause === undefined) world.pauses.end();
      return isDone(connection);
    });
  });

  test("deletes no rows, but frees deliveries, while its clock disagrees with the database's", async () => {
    world.clock.setAgreement(false);
    world.start({ metrics: { registry } });
    await world.idle();
    const connection = await world.connect();
    const [freeing, deleting] = [REAP_MS, HOUR_MS].map((pause) => WORK.find((work) => work.pause === pause));
    for (const work of [freeing, deleting]) await work?.prepare(connection);
    await world.stepUntil("the delivery is free", async () => (await freeing?.isDone(connection)) === true);
    await world.step();
    expect(await deleting?.isDone(connection)).toBe(false);
    world.clock.setAgreement(true);
    await world.stepUntil("the rows are deleted", async () => (await deleting?.isDone(connection)) === true);
  });

  test("logs a fault of each loop, and works again after the fault", async () => {
    world.start({ metrics: { registry } });
    await world.idle();
    const logged = (msg: string) =>
      new Set(world.lines.filter((line) => line.msg === msg).map((line) => line.loop ?? line.measurement));
    const loops = new Set(LOOPS.filter((name) => name !== "measurements"));
    const { rows } = await world.home.database.raw("select current_schema() as schema");
    await world.home.database.raw("alter schema ?? rename to hidden", [rows[0].schema]);
    await world.stepUntil("all fail", () => logged("not working, trying again").size === loops.size);
    await world.stepUntil("no measurement", () => logged("not measured").size === 6);
    await world.home.database.raw("alter schema hidden rename to ??", [rows[0].schema]);
    await world.stepUntil("all work", () => logged("working again").size === loops.size);
    await world.stepUntil("all measurements", () => logged("measured again").size === 6);
    expect(logged("not working, trying again")).toEqual(loops);
    expect(logged("working again")).toEqual(loops);
  });
});

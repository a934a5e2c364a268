import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Database, openDatabase } from "../../src/db/database.ts";
import { spawnWorker, type WorkerProcess } from "./support/child.ts";
import { makeConnection, type TestConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { append, deniedEvent } from "./support/events.ts";
import { chances, checkInvariants, isQuiet, type Ledger, printedSeed, startLoad } from "./support/load.ts";
import { type FragilePostgres, startFragilePostgres } from "./support/postgres.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";
import { eventually } from "./support/time.ts";
import { startTestWorker } from "./support/worker.ts";

const home = useDatabase();
let receiver: Receiver;
let cleanUp: (() => Promise<unknown>)[];

beforeEach(async () => {
  await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints, dead_letters cascade");
  await home.database("relay_workers").delete();
  receiver = await startReceiver();
  cleanUp = [() => receiver.close()];
});
afterEach(async () => {
  for (const clean of cleanUp.reverse()) await clean();
});

async function connect(database: Database, count: number): Promise<TestConnection[]> {
  const made = Array.from({ length: count }, () => makeConnection(database, receiver.url));
  const connections = await Promise.all(made);
  for (const { connectionId, secret } of connections) receiver.secrets.set(connectionId, secret);
  return connections;
}

test("other workers take over a frozen worker's shards and deliveries, and the frozen worker does no harm when it continues", async () => {
  const timing = { leaseSeconds: 2, claimSeconds: 4, reapSeconds: 0.5 };
  const chance = chances(printedSeed());
  const start = async (): Promise<WorkerProcess> => {
    const worker = await spawnWorker(home.urls, timing);
    cleanUp.push(() => worker.kill("SIGKILL"));
    return worker;
  };
  receiver.reply = async () => {
    await sleep(chance() * 20);
    return 204;
  };
  const workers = [await start(), await start()];
  const ledger: Ledger = { committed: [], rolledBack: [], unknown: [] };
  /** Otherwise, on a slow machine, the load would grow faster than the remaining worker can deliver. */
  const keepsPace = () => ledger.committed.length - receiver.requests.length < 300;
  const load = startLoad(home.database, await connect(home.database, 20), chance, ledger, keepsPace);
  for (let round = 0; round < 2; round++) {
    await sleep(500 + chance() * 1500);
    const frozen = workers[round % 2]!;
    frozen.signal("SIGSTOP");
    const before = ledger.committed.length;
    await eventually(
      "events appended since are received, whatever shard they are on",
      () => {
        const received = new Set(receiver.requests.map(({ event }) => event.request_id));
        const since = ledger.committed.slice(before, before + 100);
        return since.length === 100 && since.every((id) => received.has(id));
      },
      60,
    );
    frozen.signal("SIGCONT");
  }
  await load.stop();
  const calm = startLoad(home.database, await connect(home.database, 5), chance, ledger);
  await sleep(1000);
  await calm.stop();
  await eventually("nothing waits any more", () => isQuiet(home.database), 60);
  const checked = await checkInvariants(home.database, receiver, ledger);
  console.log(checked, `${ledger.committed.length} events`);
  expect(checked.orderedConnections).toBeGreaterThanOrEqual(5);
}, 300_000);

test.each([
  ["", false],
  [", and so does the pooler in front of it", true],
])(
  "workers deliver everything although Postgres crashes five times under load%s",
  async (_, isPooled) => {
    const chance = chances(printedSeed());
    const postgres: FragilePostgres = await startFragilePostgres({ isPooled });
    cleanUp.push(() => postgres.remove());
    const { DATABASE_URL: url } = postgres.urls;
    const database = openDatabase({ url, name: "test", max: 8, onError: () => {} });
    cleanUp.push(() => database.destroy());
    const worker = startTestWorker(postgres.urls, { leaseSeconds: 2, claimSeconds: 20, reapSeconds: 0.5 });
    cleanUp.push(() => worker.stop());
    receiver.reply = async () => {
      await sleep(chance() * 50);
      return 204;
    };
    const load = startLoad(database, await connect(database, 10), chance);
    for (let round = 0; round < 5; round++) {
      await sleep(200 + chance() * 1500);
      await Promise.all([postgres.crash(chance() * 2000), postgres.crashPooler(chance() * 2000)]);
    }
    await sleep(1000);
    await load.stop();
    const calm = startLoad(database, await connect(database, 5), chance, load.ledger);
    await sleep(1000);
    await calm.stop();
    await eventually("nothing waits any more", () => isQuiet(database), 120);
    const { ledger } = load;
    const checked = await checkInvariants(database, receiver, ledger);
    console.log(checked, `${ledger.committed.length} events, ${ledger.unknown.length} unknown`);
    expect(ledger.committed.length).toBeGreaterThan(50);
    expect(checked.orderedConnections).toBeGreaterThanOrEqual(5);
  },
  300_000,
);

test("40 receivers that hang do not delay 160 healthy ones", async () => {
  const [healthy, hanging] = [await connect(home.database, 160), await connect(home.database, 40)];
  const hang = new Set(hanging.map(({ connectionId }) => connectionId));
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  receiver.reply = async ({ event }) => {
    if (hang.has(String(event.connection_id))) await gate;
    return 204;
  };
  const worker = startTestWorker(home.urls);
  cleanUp.push(() => worker.stop());
  for (const connection of hanging) await append(home.database, deniedEvent(connection, "hangs"));
  await eventually("all the hanging requests are under way", () => receiver.open === 40);
  for (let n = 0; n < 2; n++) {
    await Promise.all(healthy.map((connection) => append(home.database, deniedEvent(connection, `ok-${n}`))));
  }
  const delivered = () =>
    home.database("webhook_deliveries").where({ state: "delivered" }).pluck("delivery_id");
  await eventually("the healthy ones have everything", async () => (await delivered()).length === 320, 14);
  expect(receiver.open).toBe(40);
  release();
  await eventually("the others too", () => isQuiet(home.database));
  expect(receiver.requests.length).toBe(360);
}, 120_000);

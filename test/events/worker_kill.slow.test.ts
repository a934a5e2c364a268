import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { spawnWorker, type WorkerProcess } from "./support/child.ts";
import { makeConnection, type TestConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { chances, checkInvariants, isQuiet, type Ledger, printedSeed, startLoad } from "./support/load.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";
import { eventually } from "./support/time.ts";

const home = useDatabase();
const timing = { leaseSeconds: 1, claimSeconds: 3, reapSeconds: 0.3 };
/** The share of rounds that kill a worker while it delivers. The other rounds kill it at any time. */
const DELIVERING = 0.7;
let receiver: Receiver;
let running: WorkerProcess[];

beforeEach(async () => {
  await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints, dead_letters cascade");
  receiver = await startReceiver();
  running = [];
});
afterEach(async () => {
  for (const worker of running) await worker.kill("SIGKILL");
  await receiver.close();
});

async function start(): Promise<WorkerProcess> {
  const worker = await spawnWorker(home.urls, timing);
  running.push(worker);
  return worker;
}

async function end(worker: WorkerProcess, signal: NodeJS.Signals): Promise<void> {
  await worker.kill(signal);
  running = running.filter((each) => each !== worker);
}

/** On a slow machine, a new worker needs a long time before it delivers. */
async function deliveries(): Promise<void> {
  const before = receiver.requests.length;
  await eventually("a worker delivers", () => receiver.requests.length > before, 60);
}

async function connect(count: number): Promise<TestConnection[]> {
  const connections = await Promise.all(
    Array.from({ length: count }, () => makeConnection(home.database, receiver.url)),
  );
  for (const { connectionId, secret } of connections) receiver.secrets.set(connectionId, secret);
  return connections;
}

test.each([1, 2])(
  "with %i workers, of which one is killed at 10 random moments, no event is lost, invented or sent too often",
  async (count) => {
    const chance = chances(printedSeed());
    receiver.reply = async () => {
      await sleep(chance() * 60);
      return 204;
    };
    const ledger: Ledger = { committed: [], rolledBack: [], unknown: [] };
    const keepsPace = () => ledger.committed.length - receiver.requests.length < 300;
    const load = startLoad(home.database, await connect(20), chance, ledger, keepsPace);
    for (let n = 0; n < count; n++) await start();
    for (let round = 0; round < 10; round++) {
      if (chance() < DELIVERING) await deliveries();
      await sleep(50 + chance() * 700);
      await end(running[Math.floor(chance() * running.length)]!, "SIGKILL");
      await start();
    }
    await load.stop();
    const calm = startLoad(home.database, await connect(5), chance, ledger);
    await sleep(1000);
    await calm.stop();
    await eventually("nothing waits any more", () => isQuiet(home.database), 120);
    const checked = await checkInvariants(home.database, receiver, ledger);
    console.log(checked, `${ledger.committed.length} events, ${ledger.rolledBack.length} rolled back`);
    expect(ledger.committed.length).toBeGreaterThan(200);
    expect(ledger.rolledBack.length).toBeGreaterThan(10);
    expect(checked.lostAttempts).toBeGreaterThan(0);
    expect(checked.orderedConnections).toBeGreaterThanOrEqual(5);
  },
  300_000,
);

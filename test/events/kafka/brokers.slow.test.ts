import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { StartError } from "../../../src/config.ts";
import { openCarrier } from "../../../src/events/carrier.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { makeConnection, type TestConnection } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { append, deniedEvent } from "../support/events.ts";
import { chances, checkInvariants, isQuiet, printedSeed, startLoad } from "../support/load.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { eventually } from "../support/time.ts";
import { startTestWorker } from "../support/worker.ts";
import { type KafkaWorld, kafkaWorld } from "./kafka_world.ts";

const START_MS = 10 * 60_000;
const TIMING = { leaseSeconds: 3, claimSeconds: 20, reapSeconds: 0.5 };
const { missing, start } = await kafkaForTests({ needsOwn: true });
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("workers over three brokers", { timeout: 240_000 }, () => {
  const home = useDatabase();
  let kafka: TestKafka;
  let world: KafkaWorld;
  let receiver: Receiver;
  let cleanUp: (() => Promise<unknown>)[];
  const fatal: Error[] = [];

  beforeAll(async () => {
    kafka = await start({ count: 3 });
  }, START_MS);
  afterAll(() => kafka?.stop());
  beforeEach(async () => {
    await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints, dead_letters cascade");
    await home.database("relay_workers").delete();
    // Each test has its own topics, because records of an earlier test could arrive again.
    world = await kafkaWorld(home, kafka.brokers, { replication: 3, partitions: 6 });
    receiver = await startReceiver();
    cleanUp = [() => receiver.close()];
    fatal.length = 0;
  });
  afterEach(async () => {
    for (const clean of cleanUp.reverse()) await clean();
  });

  async function connect(count: number): Promise<TestConnection[]> {
    const made = Array.from({ length: count }, () => makeConnection(home.database, receiver.url));
    const connections = await Promise.all(made);
    for (const { connectionId, secret } of connections) receiver.secrets.set(connectionId, secret);
    return connections;
  }

  async function startWorker(): Promise<void> {
    const told = (error: Error) => void fatal.push(error);
    const carrier = await openCarrier(world.settings, told);
    const worker = startTestWorker(home.urls, TIMING, { carrier, fatal: told });
    cleanUp.push(() => worker.stop());
  }

  const received = () => new Set(receiver.requests.map(({ event }) => String(event.request_id)));

  test("lose or invent no event while brokers crash, freeze or all stop, and workers start and stop", async () => {
    const chance = chances(printedSeed());
    await startWorker();
    const load = startLoad(home.database, await connect(12), chance);
    const [one, two, three] = kafka.nodes;
    if (one === undefined || two === undefined || three === undefined) throw new Error("There are no three");
    await sleep(2_000);
    await one.kill();
    await sleep(3_000);
    await startWorker();
    await one.start();
    await sleep(2_000);
    two.pause();
    await sleep(4_000);
    two.resume();
    await sleep(2_000);
    for (const node of [one, two, three]) await node.kill();
    await sleep(8_000);
    await Promise.all([one, two, three].map((node) => node.start()));
    await sleep(2_000);
    await load.stop();
    const { ledger } = load;
    await eventually(
      "everything that was committed is received",
      () => {
        const seen = received();
        return ledger.committed.every((id) => seen.has(id));
      },
      120,
    );
    await eventually("nothing waits any more", () => isQuiet(home.database), 60);
    const checked = await checkInvariants(home.database, receiver, ledger);
    console.log(checked, `${ledger.committed.length} events, ${ledger.rolledBack.length} rolled back`);
    expect(ledger.committed.length).toBeGreaterThan(200);
    expect(fatal).toEqual([]);
  });

  test("refuse a change of EVENTS while events wait, and report their number", async () => {
    const [connection] = await connect(1);
    if (connection === undefined) throw new Error("There is no connection");
    const told: Error[] = [];
    await home.database("event_way").update({ way: "kafka" });
    for (const id of ["a", "b", "c"]) await append(home.database, deniedEvent(connection, id));
    const embedded = startTestWorker(home.urls, TIMING, { fatal: (error) => void told.push(error) });
    await eventually("it is refused", () => told.length > 0);
    await embedded.stop();
    expect(told[0]).toBeInstanceOf(StartError);
    expect(told[0]?.message).toContain("EVENTS=embedded, but 3 events still wait from EVENTS=kafka");
    expect(receiver.requests).toEqual([]);
    await startWorker();
    await eventually("Kafka carries them", () => receiver.requests.length === 3);
    await eventually("nothing waits any more", () => isQuiet(home.database));
    await cleanUp.pop()?.();
    const worker = startTestWorker(home.urls, TIMING);
    cleanUp.push(() => worker.stop());
    await eventually("it is taken once none waits", async () => {
      const row = await home.database("event_way").first("way");
      return row?.way === "embedded";
    });
    await append(home.database, deniedEvent(connection, "d"));
    await eventually("the next one goes inside the worker", () => receiver.requests.length === 4);
  });
});

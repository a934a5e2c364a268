import type { BenchDatabase } from "../database.ts";
import { median } from "../median.ts";
import { processorTime, processorTimeWithChildren } from "../processor_time.ts";
import { percentiles } from "../vault/timing.ts";
import type { BenchKafka } from "./kafka.ts";
import { fillOutbox, makeConnections, runLoad } from "./load.ts";
import { type RelaySettings, startRelayProcess } from "./relay_child.ts";

const ROUNDS = 3;
const CONNECTIONS = 200;
/** 2,000 events a second: changes of ten events each, such as the revocation of an agent's certificates. */
const RATE = { transactionsPerSecond: 200, eventsEach: 10 };
const WARM_MS = 3_000;
const LOAD_MS = 15_000;
const DRAINED = 30_000;

type Place = { database: BenchDatabase; kafka: BenchKafka | undefined };

/** Both ways, in turns; only the one without Kafka where there is none. */
function ways({ kafka }: Place) {
  return ([["embedded", undefined]] as [string, BenchKafka | undefined][]).concat(
    kafka === undefined ? [] : [["kafka", kafka]],
  );
}

/** From the commit of a change to that of its handling, at 2,000 events a second: p50 and p99 in ms. */
export async function measureLatency(place: Place) {
  const { db } = place.database;
  const connections = await makeConnections(db, Array(CONNECTIONS).fill(null));
  const seen = ways(place).map(([way, kafka]) => ({ way, kafka, rounds: [] as Waits[] }));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { kafka, rounds } of seen) rounds.push(await latencyRound(place.database, connections, kafka));
  }
  const middle = (rounds: Waits[] = [], name: keyof Waits) => median(rounds.map((waits) => waits[name]));
  return seen.map(({ way, rounds }) => ({
    way,
    events_per_second: Math.round(middle(rounds, "perSecond")),
    p50_ms: Number(middle(rounds, "p50").toFixed(1)),
    p99_ms: Number(middle(rounds, "p99").toFixed(1)),
    p99_of_embedded: Number((middle(rounds, "p99") / middle(seen[0]?.rounds, "p99")).toFixed(2)),
  }));
}

type Waits = { p50: number; p99: number; perSecond: number };

async function latencyRound(
  { db, url }: BenchDatabase,
  connections: Awaited<ReturnType<typeof makeConnections>>,
  kafka: BenchKafka | undefined,
): Promise<Waits> {
  await db("outbox").delete();
  await db("event_way").update({ way: kafka === undefined ? "embedded" : "kafka" });
  const relay = await startRelayProcess({ url, kafka: await kafka?.topics(), consumer: "nothing" });
  try {
    const transactions = ((WARM_MS + LOAD_MS) / 1000) * RATE.transactionsPerSecond;
    const { ended } = relay.begin({ events: transactions * RATE.eventsEach, collects: true });
    const committed = await runLoad({ db, connections, transactions, ...RATE });
    const { handled } = await ended;
    const times = [...committed.values()];
    const warmAt = (times[0] ?? 0) + WARM_MS;
    const waits = handled.flatMap(([number, at]) => {
      const from = committed.get(number);
      return from === undefined || from < warmAt ? [] : [at - from];
    });
    const seconds = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1000;
    return { ...percentiles(waits), perSecond: times.length / seconds };
  } finally {
    await relay.stop();
  }
}

/**
 * Rows a second from a full outbox to the commit of their handling, by what handles them, and the processor
 * time of a row, which depends less on what else the machine does.
 */
export async function measureDrain(place: Place) {
  const { db } = place.database;
  const urls = Array(CONNECTIONS).fill("https://hooks.example.test/");
  const connections = await makeConnections(db, urls);
  const seen = ways(place).flatMap(([way, kafka]) =>
    (["nothing", "webhooks"] as const).map((consumer) => ({ way, kafka, consumer, drains: [] as Drain[] })),
  );
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { kafka, consumer, drains } of seen) {
      await db.raw("truncate outbox, inbox, published_events, webhook_deliveries cascade");
      await fillOutbox(db, connections, DRAINED);
      drains.push(await drain(place.database, kafka, consumer));
    }
  }
  const middle = (drains: Drain[] = [], name: keyof Drain) => median(drains.map((each) => each[name]));
  return seen.map(({ way, consumer, drains }) => ({
    way,
    consumer,
    rows_per_second: Math.round(middle(drains, "perSecond")),
    of_first: Number((middle(drains, "perSecond") / middle(seen[0]?.drains, "perSecond")).toFixed(2)),
    relay_cpu_us: Math.round(middle(drains, "relayCpu")),
    postgres_cpu_us: Math.round(middle(drains, "postgresCpu")),
  }));
}

/** Processor time in microseconds a row. */
type Drain = { perSecond: number; relayCpu: number; postgresCpu: number };

async function drain(
  { db, url, postgresPid }: BenchDatabase,
  kafka: BenchKafka | undefined,
  consumer: RelaySettings["consumer"],
): Promise<Drain> {
  await db("event_way").update({ way: kafka === undefined ? "embedded" : "kafka" });
  const relay = await startRelayProcess({ url, kafka: await kafka?.topics(), consumer });
  try {
    const before = [await processorTime(relay.pid), await processorTimeWithChildren(postgresPid)] as const;
    const { startedAt, endedAt } = await relay.begin({ events: DRAINED, collects: false }).ended;
    const [relayBefore, postgresBefore] = before;
    return {
      perSecond: DRAINED / ((endedAt - startedAt) / 1000),
      relayCpu: ((await processorTime(relay.pid)) - relayBefore) / DRAINED,
      postgresCpu: ((await processorTimeWithChildren(postgresPid)) - postgresBefore) / DRAINED,
    };
  } finally {
    await relay.stop();
  }
}

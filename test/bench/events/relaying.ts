import type { BenchDatabase } from "../database.ts";
import { processorTime, processorTimeWithChildren } from "../processor_time.ts";
import type { Ratio } from "../results/figures.ts";
import type { FigureRecord } from "../results/record.ts";
import { percentiles } from "../timing.ts";
import type { BenchKafka } from "./kafka.ts";
import { fillOutbox, makeConnections, runLoad } from "./load.ts";
import { type RelaySettings, startRelayProcess } from "./relay_child.ts";

const ROUNDS = 3;
const CONNECTIONS = 200;
/** 2,000 events per second. Each change has ten events, as when an agent's certificates are revoked. */
const RATE = { transactionsPerSecond: 200, eventsEach: 10 };
const WARM_MS = 3_000;
const LOAD_MS = 15_000;
const DRAINED = 30_000;

type Place = { database: BenchDatabase; kafka: BenchKafka | undefined; record: FigureRecord };

function carriers({ kafka }: Place) {
  return ([["embedded", undefined]] as [string, BenchKafka | undefined][]).concat(
    kafka === undefined ? [] : [["kafka", kafka]],
  );
}

/** Measures the time from a change's commit to the commit of its handling, at 2,000 events per second. */
export async function measureLatency(place: Place): Promise<Ratio[]> {
  const { db } = place.database;
  const connections = await makeConnections(db, Array(CONNECTIONS).fill(null));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [carrier, kafka] of carriers(place)) {
      const { p50, p99, perSecond } = await latencyRound(place.database, connections, kafka);
      place.record.add(`commit to consumer, ${carrier}: p50`, "ms", p50);
      place.record.add(`commit to consumer, ${carrier}: p99`, "ms", p99);
      place.record.add(`commit to consumer, ${carrier}: load`, "events a second", perSecond);
    }
  }
  const [, ...others] = carriers(place);
  return others.map(([carrier]) => ({
    name: `commit to consumer, ${carrier} / embedded, p99`,
    over: `commit to consumer, ${carrier}: p99`,
    under: "commit to consumer, embedded: p99",
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
 * Measures for each consumer how many rows per second a full outbox drains until their handling has
 * committed. Also measures processor time per row, which depends less on other programs.
 */
export async function measureDrain(place: Place): Promise<Ratio[]> {
  const { db } = place.database;
  const urls = Array(CONNECTIONS).fill("https://hooks.example.test/");
  const connections = await makeConnections(db, urls);
  const cases = carriers(place).flatMap(([carrier, kafka]) =>
    (["nothing", "webhooks"] as const).map((consumer) => ({
      name: `a full outbox drained, ${carrier}, ${consumer}`,
      kafka,
      consumer,
    })),
  );
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { name, kafka, consumer } of cases) {
      await db.raw("truncate outbox, inbox, published_events, webhook_deliveries cascade");
      await fillOutbox(db, connections, DRAINED);
      const { perSecond, relayCpu, postgresCpu } = await drain(place.database, kafka, consumer);
      place.record.add(name, "rows a second", perSecond);
      place.record.add(`${name}: relay`, "µs of the processor a row", relayCpu);
      place.record.add(`${name}: Postgres`, "µs of the processor a row", postgresCpu);
    }
  }
  const [first, ...others] = cases.map(({ name }) => name);
  return others.map((over) => ({ name: `${over} / ${first}`, over, under: first ?? "" }));
}

/** Rows per second, and processor times in microseconds per row. */
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

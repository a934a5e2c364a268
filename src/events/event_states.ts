import type { Database } from "../db/database.ts";
import type { MeasuredState } from "./measurements.ts";
import type { Reader } from "./published.ts";

/** The counts stop at this many rows, because more precise counts would not help an alert. */
const MOST = 100_000;
/** The counts of deliveries stop at this many rows, because deliveries are scattered over the table. */
const MOST_DELIVERIES = 20_000;
const QUERY_MS = 5_000;

const OF_ALL = "the same at every worker";

const UP_TO = `at most ${MOST}; ${OF_ALL}`;

const DELIVERIES_UP_TO = `at most ${MOST_DELIVERIES}; ${OF_ALL}`;

/** Returns SQL that counts rows and stops at `most`. */
export function counted(rows: string, most = MOST): string {
  return `(select count(*) from (select from ${rows} limit ${most}) counted)`;
}

function countedDeliveries(state: string): string {
  return counted(`webhook_deliveries where state = '${state}'`, MOST_DELIVERIES);
}

/** Runs a query and cancels it after 5 s, also on the server. */
export async function rowsOf<Row>(database: Database, query: string, bindings: object = {}): Promise<Row[]> {
  const { rows } = await database.raw(query, { ...bindings }).timeout(QUERY_MS, { cancel: true });
  return rows;
}

async function rowOf<Row>(database: Database, query: string): Promise<Row> {
  const [row] = await rowsOf<Row>(database, query);
  if (row === undefined) throw new Error("The query returned no row");
  return row;
}

/** Returns 0 for `null` and for a moment in the future. */
function secondsSince(moment: Date | null, now: Date): number {
  return moment === null ? 0 : Math.max(0, (now.getTime() - moment.getTime()) / 1000);
}

/** The query looks for the oldest event only among the first waiting and the last published events. */
const OUTBOX_LOOKED_AT = 1_000;
const PUBLISHED_LOOKED_AT = 5_000;

/**
 * Returns the states of events and their deliveries, which are the same at every worker. No query counts more
 * than 100,000 rows.
 */
export function eventStates(database: Database, consumers: readonly Reader[]): MeasuredState[] {
  return [
    outbox(database),
    unhandled(database, consumers),
    deadLetters(database, consumers),
    history(database),
    ...deliveryStates(database),
  ];
}

const OUTBOX = `
select ${counted("outbox")} as events,
       (select min(created_at) from (select created_at from outbox order by id limit ${OUTBOX_LOOKED_AT}) f) as oldest`;

/** Counts the events in the outbox, up to 100,000, and returns the age of the oldest in seconds. */
export async function readOutbox(
  database: Database,
  now: Date,
): Promise<{ events: number; oldestSeconds: number }> {
  const { events, oldest } = await rowOf<{ events: number; oldest: Date | null }>(database, OUTBOX);
  return { events, oldestSeconds: secondsSince(oldest, now) };
}

function outbox(database: Database): MeasuredState {
  return {
    name: "outbox",
    gauges: {
      deputize_outbox_events: { help: `Events that wait to be published, ${UP_TO}` },
      deputize_outbox_oldest_seconds: {
        help: `Seconds that the oldest event has waited to be published, ${OF_ALL}`,
      },
    },
    async read(now) {
      const { events, oldestSeconds } = await readOutbox(database, now);
      return {
        deputize_outbox_events: [{ value: events }],
        deputize_outbox_oldest_seconds: [{ value: oldestSeconds }],
      };
    },
  };
}

const UNHANDLED = `
select c.name, (
  select min(e.created_at) from (
    (select event_id, aggregatetype, created_at from outbox order by id limit ${OUTBOX_LOOKED_AT})
    union all
    (select event_id, aggregatetype, created_at from published_events
     order by published_at desc limit ${PUBLISHED_LOOKED_AT})
  ) e
  where (c.types is null or e.aggregatetype = any(string_to_array(c.types, ',')))
    and not exists (select from inbox i where i.consumer = c.name and i.event_id = e.event_id)) as oldest
from unnest(cast(:names as text[]), cast(:types as text[])) as c (name, types)`;

function unhandled(database: Database, consumers: readonly Reader[]): MeasuredState {
  const bindings = {
    names: consumers.map(({ name }) => name),
    types: consumers.map(({ aggregateTypes }) => aggregateTypes?.join() ?? null),
  };
  return {
    name: "consumers",
    gauges: {
      deputize_consumer_oldest_seconds: {
        help: `Age in seconds of the oldest event that a consumer has not handled, of the last ${PUBLISHED_LOOKED_AT} published ones and the first ${OUTBOX_LOOKED_AT} of the outbox, ${OF_ALL}`,
        labelNames: ["consumer"],
      },
    },
    async read(now) {
      const rows = await rowsOf<{ name: string; oldest: Date | null }>(database, UNHANDLED, bindings);
      return {
        deputize_consumer_oldest_seconds: rows.map(({ name, oldest }) => ({
          labels: { consumer: name },
          value: secondsSince(oldest, now),
        })),
      };
    },
  };
}

const DEAD_LETTERS = `
select c.name, ${counted("dead_letters d where d.consumer = c.name")} as events
from unnest(cast(:names as text[])) as c (name)`;

const UNCARRIED = `
select ${counted("dead_letters where carried_at is null")} as events from event_way where way = 'kafka'`;

function deadLetters(database: Database, consumers: readonly Reader[]): MeasuredState {
  const bindings = { names: consumers.map(({ name }) => name) };
  return {
    name: "dead_letters",
    gauges: {
      deputize_dead_letters: {
        help: `Dead letters in the database: events that a consumer could not handle, ${UP_TO}`,
        labelNames: ["consumer"],
      },
      deputize_dead_letters_uncarried: {
        help: `Dead letters that the Kafka topic does not contain yet, with EVENTS=kafka only, ${UP_TO}`,
      },
    },
    async read() {
      const rows = await rowsOf<{ name: string; events: number }>(database, DEAD_LETTERS, bindings);
      const uncarried = await rowsOf<{ events: number }>(database, UNCARRIED);
      return {
        deputize_dead_letters: rows.map(({ name, events }) => ({
          labels: { consumer: name },
          value: events,
        })),
        deputize_dead_letters_uncarried: uncarried.map(({ events }) => ({ value: events })),
      };
    },
  };
}

const HISTORY = `
select ${counted("history_queue")} as waiting,
       (select occurred_at from history_queue order by occurred_at, event_id limit 1) as oldest,
       (select way from event_way) as way`;

/** After a change back to `embedded`, rows stay in the queue, and their age must trigger no alert. */
function history(database: Database): MeasuredState {
  return {
    name: "history",
    gauges: {
      deputize_history_queue_rows: { help: `Rows of the history that Kafka does not contain yet, ${UP_TO}` },
      deputize_history_queue_oldest_seconds: {
        help: `Seconds that the oldest row of the history has waited for Kafka, with EVENTS=kafka only, ${OF_ALL}`,
      },
    },
    async read(now) {
      type Row = { waiting: number; oldest: Date | null; way: string };
      const { waiting, oldest, way } = await rowOf<Row>(database, HISTORY);
      return {
        deputize_history_queue_rows: [{ value: waiting }],
        deputize_history_queue_oldest_seconds: way === "kafka" ? [{ value: secondsSince(oldest, now) }] : [],
      };
    },
  };
}

/** Returns the states of deliveries that are not finished, and of endpoints that receive nothing. */
export function deliveryStates(database: Database): MeasuredState[] {
  return [deliveries(database), endpoints(database)];
}

const UNFINISHED = ["pending", "sending", "held"] as const;

/* Counts each state in its own subquery, so that Postgres can use the index for that state. */
const DELIVERIES = `select ${UNFINISHED.map((state) => `${countedDeliveries(state)} as ${state}`).join(
  ", ",
)}`;

function deliveries(database: Database): MeasuredState {
  return {
    name: "deliveries",
    gauges: {
      deputize_webhook_deliveries: {
        help: `Unfinished deliveries by state: pending, sending or held, ${DELIVERIES_UP_TO}`,
        labelNames: ["state"],
      },
    },
    async read() {
      const counts = await rowOf<Record<(typeof UNFINISHED)[number], number>>(database, DELIVERIES);
      return {
        deputize_webhook_deliveries: UNFINISHED.map((state) => ({ labels: { state }, value: counts[state] })),
      };
    },
  };
}

const SILENT = ["suspended", "paused"] as const;

/** No endpoint that only waits for a callback URL. */
const OWNERS = "not (state = 'paused' and awaits_url)";

/* The extra condition `state <> 'active'` lets the query use the partial index. */
const ENDPOINTS = `select ${SILENT.map(
  (state) =>
    `${counted(`webhook_endpoints where state <> 'active' and state = '${state}' and ${OWNERS}`)} as ${state}`,
).join(", ")}`;

function endpoints(database: Database): MeasuredState {
  return {
    name: "endpoints",
    gauges: {
      deputize_webhook_endpoints: {
        help: `Endpoints that receive nothing, by state: suspended, or paused by their owner, ${UP_TO}`,
        labelNames: ["state"],
      },
    },
    async read() {
      const counts = await rowOf<Record<(typeof SILENT)[number], number>>(database, ENDPOINTS);
      return {
        deputize_webhook_endpoints: SILENT.map((state) => ({ labels: { state }, value: counts[state] })),
      };
    },
  };
}

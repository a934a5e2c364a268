import type { Database } from "../../db/database.ts";
import type { Reader } from "../published.ts";
import { counted, OF_ALL, rowOf, rowsOf, secondsSince, UP_TO } from "./counting.ts";
import { deliveryStates } from "./delivery_states.ts";
import type { MeasuredState } from "./measurements.ts";

/** Among so many events, the first of the outbox and the last published ones, the oldest is looked for. */
const OUTBOX_LOOKED_AT = 1_000;
const PUBLISHED_LOOKED_AT = 5_000;

/**
 * What the database says of events and their deliveries, to every worker alike. No query counts further than
 * 100,000 rows, each reads an index or the begin of a table; but endpoints, all of which are read.
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

/** How many events wait in the outbox, counted up to 100,000, and for how many seconds the oldest one has. */
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
  where (c.type is null or e.aggregatetype = c.type)
    and not exists (select from inbox i where i.consumer = c.name and i.event_id = e.event_id)) as oldest
from unnest(cast(:names as text[]), cast(:types as text[])) as c (name, type)`;

function unhandled(database: Database, consumers: readonly Reader[]): MeasuredState {
  const bindings = {
    names: consumers.map(({ name }) => name),
    types: consumers.map(({ aggregateType = null }) => aggregateType),
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
        help: `Events in the table of those that a consumer could not handle, ${UP_TO}`,
        labelNames: ["consumer"],
      },
      deputize_dead_letters_uncarried: {
        help: `Of them those that Kafka's topic does not have yet, with EVENTS=kafka only, ${UP_TO}`,
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

/** What is left in the queue on the way back to `embedded` waits for Kafka's return, and alarms nobody. */
function history(database: Database): MeasuredState {
  return {
    name: "history",
    gauges: {
      deputize_history_queue_rows: { help: `Rows of the history that Kafka does not have yet, ${UP_TO}` },
      deputize_history_queue_oldest_seconds: {
        help: `Seconds that the oldest of these rows has waited, with EVENTS=kafka only, ${OF_ALL}`,
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

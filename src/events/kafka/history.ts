import { v5 as uuidv5 } from "uuid";
import { type Loop, startLoop } from "../../concurrency/loop.ts";
import type { Database } from "../../db/database.ts";
import type { HistoryQueueRow } from "../../db/tables.ts";
import { type HistoryRow, historyColumns, showHistoryRow } from "../../history/history_entry.ts";
import type { Logger } from "../../log.ts";
import { SCHEMA_VERSION } from "../outbox.ts";
import { type KafkaProducer, partitionFor } from "./producer.ts";
import { toRecord } from "./records.ts";

type Deps = { database: Database; log: Logger; producer: KafkaProducer; topic: string; workerId: string };

const BATCH = 500;
/** Seconds from a row's time to the check for open transactions. The row's transaction may begin later. */
const DELAY_SECONDS = 5;
/** After this many seconds, a row is sent even if a transaction that began before it is still open. */
const OVERDUE_SECONDS = 60;

/**
 * Sends the rows of the history to the audit topic, in the order in which an account's owner sees them. A
 * record that is sent again has the same id. A row leaves the queue after Kafka has confirmed it. Each worker
 * sends only the rows of its own shards.
 */
export function startHistoryLoop({ database, log, producer, topic, workerId }: Deps): Loop {
  const horizon = createHorizon(database);
  return startLoop({
    name: "history",
    log,
    async step() {
      const rows = await readQueue(database, workerId, await horizon());
      const kept = rows.filter(isKept);
      if (kept.length > 0) {
        const count = await producer.partitionsOf(topic);
        await producer.send(
          kept.map((row) => ({
            topic,
            partition: partitionFor(row.queued_account_id, count),
            message: recordOf(row),
          })),
        );
      }
      await takeOff(database, rows);
      return rows.length === BATCH;
    },
  });
}

type Queued = {
  queued_account_id: string;
  queued_occurred_at: Date;
  queued_event_id: string;
  traceparent: HistoryQueueRow["traceparent"];
};

/** The event fields are `null` if the event was deleted. */
type QueuedRow = Queued & (HistoryRow | { event_id: null });

function isKept(row: QueuedRow): row is Queued & HistoryRow {
  return row.event_id !== null;
}

/**
 * Returns a function that returns the time up to which the history is complete. An open transaction may still
 * commit a row that is older than existing rows. A time therefore counts as complete after every transaction
 * that was open then has ended, or after a minute.
 */
function createHorizon(database: Database): () => Promise<Date> {
  let sample: { at: Date; next: bigint } | undefined;
  let complete = new Date(0);
  return async () => {
    const { rows } = await database.raw(
      `select now() - make_interval(secs => :delay) as at, now() - make_interval(secs => :overdue) as overdue,
              pg_snapshot_xmin(s)::text as oldest, pg_snapshot_xmax(s)::text as next
       from pg_current_snapshot() s`,
      { delay: DELAY_SECONDS, overdue: OVERDUE_SECONDS },
    );
    const [{ at, overdue, oldest, next }] = rows;
    if (sample !== undefined && BigInt(oldest) >= sample.next) {
      complete = sample.at;
      sample = undefined;
    }
    sample ??= { at, next: BigInt(next) };
    return complete > overdue ? complete : overdue;
  };
}

async function readQueue(database: Database, workerId: string, until: Date): Promise<QueuedRow[]> {
  const own = database("relay_shards").where({ owner: workerId }).select("shard");
  const batch = database("history_queue")
    .where("occurred_at", "<", until)
    .whereRaw("shard = any (array(?))", [own])
    .orderBy(["occurred_at", "event_id"])
    .limit(BATCH);
  const rows = await database
    .from(batch.as("q"))
    .leftJoin("audit_events as e", (on) =>
      on
        .on("e.account_id", "q.account_id")
        .on("e.occurred_at", "q.occurred_at")
        .on("e.event_id", "q.event_id"),
    )
    .orderBy(["q.occurred_at", "q.event_id"])
    .select(
      "q.account_id as queued_account_id",
      "q.occurred_at as queued_occurred_at",
      "q.event_id as queued_event_id",
      "q.traceparent",
      ...historyColumns(database),
    );
  return rows as QueuedRow[];
}

/** An event may be in the histories of two accounts, and each account has its own record of it. */
function recordOf(row: Queued & HistoryRow) {
  const entry = showHistoryRow(row);
  return toRecord({
    eventId: uuidv5(entry.event_id, row.queued_account_id),
    type: entry.event_type,
    aggregateType: "account",
    aggregateId: row.queued_account_id,
    schemaVersion: SCHEMA_VERSION,
    payload: JSON.stringify(entry),
    headers: row.traceparent === null ? {} : { traceparent: row.traceparent },
    createdAt: row.occurred_at,
  });
}

async function takeOff(database: Database, rows: readonly Queued[]): Promise<void> {
  if (rows.length === 0) return;
  await database.raw(
    `delete from history_queue q
     using unnest(:accounts::uuid[], :times::timestamptz[], :ids::uuid[]) as sent (account_id, occurred_at, event_id)
     where q.account_id = sent.account_id and q.occurred_at = sent.occurred_at and q.event_id = sent.event_id`,
    {
      accounts: rows.map((row) => row.queued_account_id),
      times: rows.map((row) => row.queued_occurred_at),
      ids: rows.map((row) => row.queued_event_id),
    },
  );
}

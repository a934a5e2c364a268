import type { Database } from "../../db/database.ts";
import type { KafkaSettings } from "../../input/event_settings.ts";
import { exitStatus } from "../../input/exit_status.ts";
import { OUTBOX_SHARDS } from "../outbox.ts";
import type { Reader } from "../published.ts";
import type { KafkaStatus } from "./kafka_status.ts";
import type { Report } from "./report.ts";
import { type EventsStatus, type Shard, statusLines, type Waiting } from "./status_lines.ts";

/** Dependencies of the status command. `kafka` is `undefined` unless this command has `EVENTS=kafka`. */
export type StatusDeps = {
  clock: { now(): Date };
  readers: readonly Reader[];
  kafka: KafkaSettings | undefined;
};

const SHOWN = 5;
const STATES = [
  "pending",
  "sending",
  "held",
  "delivered",
  "rejected",
  "blocked",
  "failed",
  "cancelled",
] as const;

/**
 * `deputize events status`: reports the state of events in the database and, with `EVENTS=kafka`, in Kafka.
 * If Kafka cannot be queried, the exit status is 3. Uses one statement for each table, so that no snapshot
 * stays open for long.
 */
export async function showStatus(db: Database, { clock, readers, kafka }: StatusDeps): Promise<Report> {
  const now = clock.now();
  const carrier = await db("event_way").first("way");
  const status: EventsStatus = {
    way: carrier?.way ?? "embedded",
    setting: kafka === undefined ? "embedded" : "kafka",
    outbox: await readOutbox(db, now),
    history_queue: await readWaiting(db, "history_queue", "occurred_at", now),
    published: await readPublished(db),
    dead_letters: await readLetters(db, readers),
    deliveries: await readDeliveries(db),
    suspended_endpoints: await readSuspended(db),
    kafka: kafka === undefined ? null : await readKafka(kafka, readers),
  };
  const isAway = status.kafka !== null && "error" in status.kafka;
  return { json: status, lines: statusLines(status), ...(isAway && { status: exitStatus.unavailable }) };
}

async function readOutbox(db: Database, now: Date): Promise<EventsStatus["outbox"]> {
  const { rows } = await db.raw(
    `select s.shard, case when s.held_until > now() then s.owner end as owner,
            count(o.id) as waiting, min(o.created_at) as oldest
     from relay_shards s left join outbox o on o.shard % ${OUTBOX_SHARDS} = s.shard group by s.shard order by s.shard`,
  );
  const shards: (Shard & { oldest: Date | null })[] = rows.map(
    (row: { shard: number; owner: string | null; waiting: number; oldest: Date | null }) => ({
      ...row,
      oldest_seconds: ageOf(row.oldest, now),
    }),
  );
  const ages = shards.map(({ oldest_seconds }) => oldest_seconds).filter((age) => age !== null);
  return {
    waiting: shards.reduce((sum, { waiting }) => sum + waiting, 0),
    oldest_seconds: ages.length === 0 ? null : Math.max(...ages),
    shards: shards.map(({ oldest, ...shard }) => shard),
  };
}

async function readWaiting(db: Database, table: string, time: string, now: Date): Promise<Waiting> {
  const { rows } = await db.raw("select count(*) as waiting, min(??) as oldest from ??", [time, table]);
  return { waiting: rows[0].waiting, oldest_seconds: ageOf(rows[0].oldest, now) };
}

function ageOf(oldest: Date | null, now: Date): number | null {
  return oldest === null ? null : Math.max(0, Math.round((now.getTime() - oldest.getTime()) / 1000));
}

async function readPublished(db: Database): Promise<EventsStatus["published"]> {
  const { rows } = await db.raw("select count(*) as kept, min(published_at) as oldest from published_events");
  return { kept: rows[0].kept, oldest_at: rows[0].oldest?.toISOString() ?? null };
}

/** Counts dead letters of every existing consumer, and of other consumers that still have dead letters. */
async function readLetters(db: Database, readers: readonly Reader[]): Promise<Record<string, number>> {
  const counts = await db("dead_letters").groupBy("consumer").orderBy("consumer").select("consumer").count();
  return {
    ...Object.fromEntries(readers.map(({ name }) => [name, 0])),
    ...Object.fromEntries(counts.map(({ consumer, count }) => [consumer, Number(count)])),
  };
}

async function readDeliveries(db: Database): Promise<EventsStatus["deliveries"]> {
  const rows = await db("webhook_deliveries").groupBy("state").select("state").count();
  const counts = new Map(rows.map(({ state, count }) => [state, Number(count)]));
  const all = STATES.map((state) => [state, counts.get(state) ?? 0]);
  return Object.fromEntries(all);
}

async function readSuspended(db: Database): Promise<EventsStatus["suspended_endpoints"]> {
  const { rows } = await db.raw(
    `select connection_id, suspended_at, suspend_reason, count(*) over () as of_all,
            (select count(*) from webhook_deliveries d where d.endpoint_id = e.endpoint_id and d.state = 'held') as held
     from webhook_endpoints e where state = 'suspended' order by suspended_at, endpoint_id limit :limit`,
    { limit: SHOWN },
  );
  type Row = { connection_id: string; suspended_at: Date; suspend_reason: string | null; held: number };
  return {
    count: rows[0]?.of_all ?? 0,
    oldest: rows.map(({ connection_id, suspended_at, suspend_reason, held }: Row) => ({
      connection_id,
      since: suspended_at.toISOString(),
      reason: suspend_reason,
      held,
    })),
  };
}

async function readKafka(settings: KafkaSettings, readers: readonly Reader[]): Promise<KafkaStatus> {
  const { readKafkaStatus } = await import("./kafka_status.ts");
  return readKafkaStatus(settings, readers);
}

import type { Clock } from "../clock.ts";
import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { OutboxRow } from "../db/tables.ts";
import type { Bus, BusEvent } from "./bus.ts";
import type { EventMetrics } from "./event_metrics.ts";
import { OUTBOX_SHARDS } from "./outbox.ts";
import { type CarrierKind, takeOffOutbox } from "./published.ts";

/** Moves events from the outbox to the bus. */
export type Relay = {
  /** Publishes and deletes one batch, ordered by id. Returns true if more events may be waiting. */
  step(): Promise<boolean>;
};

/** Dependencies of a relay. `carrier` is the setting `EVENTS` of its bus. */
export type RelayDeps = {
  database: Database;
  bus: Bus;
  clock: Clock;
  workerId: string;
  carrier?: CarrierKind;
  measure?: Pick<EventMetrics, "relayed"> | undefined;
};

type Row = OutboxRow & { epoch: number; overtakes: boolean };

/** With batches of 200 rows, each row took a quarter more processor time. */
const BATCH_ROWS = 500;
const BATCH_BYTES = 1024 * 1024;
/** Seconds after which the relay reads from the start again, because transactions may commit late. */
const REWIND_SECONDS = 5;

/*
 * The shards are an array, so Postgres reads rows along the primary key and no further than the batch. Who
 * owns a shard also owns the one of customers' events, which is `OUTBOX_SHARDS` higher.
 */
const READ = `
with own as materialized (
  select shard, epoch from relay_shards where owner = :workerId and exists (select from event_way where way = :carrier)),
batch as (
  select o.* from outbox o
  where o.id > :lowWater and exists (select from own) and o.shard = any (array(
    select shard from own union all select shard + ${OUTBOX_SHARDS} from own))
  order by o.id limit ${BATCH_ROWS}),
sized as (
  select batch.*, row_number() over (order by id) as place, sum(octet_length(payload)) over (order by id) as bytes from batch)
select sized.*, own.epoch,
       exists (select from outbox earlier where earlier.aggregateid = sized.aggregateid
               and earlier.aggregate_seq = sized.aggregate_seq - 1 and earlier.id <= :lowWater) as overtakes
from sized join own on own.shard = sized.shard % ${OUTBOX_SHARDS}
where place = 1 or bytes <= ${BATCH_BYTES} order by id`;

/**
 * Creates a relay for the shards that `workerId` owns. It may publish an event again, but never skips one. It
 * keeps the order within an aggregate, and stops reading when `EVENTS` has changed.
 *
 * The relay reads only rows above `lowWater`, which avoids scanning the remains of deleted rows. It reads
 * from the beginning every 5 s and when no row is left. If the previous event of a row's aggregate is below
 * `lowWater`, the row waits.
 */
export function createRelay(deps: RelayDeps): Relay {
  const { database, bus, clock, workerId, carrier = "embedded", measure } = deps;
  let lowWater = 0;
  let rewindAt = clock.now();

  async function read(): Promise<Row[]> {
    if (clock.now() >= rewindAt) {
      lowWater = 0;
      rewindAt = addSeconds(clock.now(), REWIND_SECONDS);
    }
    const { rows } = await database.raw(READ, { workerId, carrier, lowWater });
    return rows;
  }

  async function publish(rows: Row[]): Promise<void> {
    if (rows.length === 0) return;
    try {
      await bus.publish(rows.map(toEvent));
      await takeOffOutbox(database, rows, { workerId, carrier });
    } catch (error) {
      measure?.relayed("failed");
      throw error;
    }
    measure?.relayed("published");
  }

  return {
    async step() {
      const before = lowWater;
      const rows = await read();
      const late = new Set(rows.filter((row) => row.overtakes).map((row) => row.aggregateid));
      await publish(rows.filter((row) => !late.has(row.aggregateid)));
      lowWater = late.size > 0 ? 0 : (rows.at(-1)?.id ?? 0);
      return rows.length > 0 || before > 0;
    },
  };
}

/** Converts a row to its event. */
export function toEvent(row: Omit<OutboxRow, "id" | "shard">): BusEvent {
  return {
    eventId: row.event_id,
    type: row.type,
    aggregateType: row.aggregatetype,
    aggregateId: row.aggregateid,
    aggregateSeq: row.aggregate_seq,
    schemaVersion: row.schema_version,
    payload: row.payload,
    headers: row.headers,
    createdAt: row.created_at,
  };
}

import type { Clock } from "../clock.ts";
import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { OutboxRow } from "../db/tables.ts";
import type { Bus, BusEvent } from "./bus.ts";
import type { EventMetrics } from "./event_metrics.ts";
import { type EventWay, takeOffOutbox } from "./published.ts";

/** Moves events from the outbox to the bus. */
export type Relay = {
  /**
   * Publishes and deletes one batch of the worker's shards, in the order of their ids. True when there was
   * one.
   */
  step(): Promise<boolean>;
};

/** What a relay works with. `way`: the one that its bus goes. `measure` is told of each batch. */
export type RelayDeps = {
  database: Database;
  bus: Bus;
  clock: Clock;
  workerId: string;
  way?: EventWay;
  measure?: Pick<EventMetrics, "relayed"> | undefined;
};

type Row = OutboxRow & { epoch: number; overtakes: boolean };

/** As many as a consumer handles in one transaction; with 200 a row took a quarter more of the processor. */
const BATCH_ROWS = 500;
const BATCH_BYTES = 1024 * 1024;
/**
 * A transaction that committed late has a lower id than rows read before: look back this often, in seconds.
 */
const REWIND_SECONDS = 5;

/*
 * The shards go in as an array, so that the rows are read along the primary key and no further than the
 * batch.
 */
const READ = `
with own as materialized (
  select shard, epoch from relay_shards where owner = :workerId and exists (select from event_way where way = :way)),
batch as (
  select o.* from outbox o
  where o.id > :lowWater and exists (select from own) and o.shard = any (array(select shard from own))
  order by o.id limit ${BATCH_ROWS}),
sized as (
  select batch.*, row_number() over (order by id) as place, sum(octet_length(payload)) over (order by id) as bytes from batch)
select sized.*, own.epoch,
       exists (select from outbox earlier where earlier.aggregateid = sized.aggregateid
               and earlier.aggregate_seq = sized.aggregate_seq - 1 and earlier.id <= :lowWater) as overtakes
from sized join own on own.shard = sized.shard
where place = 1 or bytes <= ${BATCH_BYTES} order by id`;

/**
 * A relay for the shards that `workerId` owns. Reading, publishing and deleting are separate: no transaction
 * is open while the bus works. Rows above `lowWater` only are read, which spares the remains of deleted rows;
 * it goes back to the start every 5 s and when nothing is left, so no row is passed by. A row whose
 * predecessor of the same aggregate lies below it waits for that, so the order of an aggregate is kept. An
 * event may be published again after a fault, never left out. Nothing is read once another way has been
 * taken.
 */
export function createRelay(deps: RelayDeps): Relay {
  const { database, bus, clock, workerId, way = "embedded", measure } = deps;
  let lowWater = 0;
  let rewindAt = clock.now();

  async function read(): Promise<Row[]> {
    if (clock.now() >= rewindAt) {
      lowWater = 0;
      rewindAt = addSeconds(clock.now(), REWIND_SECONDS);
    }
    const { rows } = await database.raw(READ, { workerId, way, lowWater });
    return rows;
  }

  async function publish(rows: Row[]): Promise<void> {
    if (rows.length === 0) return;
    try {
      await bus.publish(rows.map(toEvent));
      await takeOffOutbox(database, rows, { workerId, way });
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

/** The event of a row. */
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

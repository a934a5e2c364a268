import type { Clock } from "../../clock.ts";
import { type Loop, startLoop } from "../../concurrency/loop.ts";
import type { Database } from "../../db/database.ts";
import type { DeadLetterRow } from "../../db/tables.ts";
import type { Logger } from "../../log.ts";
import type { BusEvent } from "../bus.ts";
import { UNREADABLE } from "../dead_letters.ts";
import { type KafkaProducer, partitionFor } from "./producer.ts";
import { toRecord } from "./records.ts";

type Deps = { database: Database; clock: Clock; log: Logger; producer: KafkaProducer; topic: string };

const BATCH = 100;
const PAUSE_MS = 1_000;
/** Leaves space for the added headers in a record that the broker accepts. */
const LARGEST_VALUE = 512 * 1024;

/**
 * Copies dead letters from the database to their topic. Each record equals the original one, with headers for
 * the consumer, the reason and the original position. If a value exceeds 512 KiB, the record contains only
 * its beginning.
 */
export function startDeadLetterLoop({ database, clock, log, producer, topic }: Deps): Loop {
  return startLoop({
    name: "dead letters",
    log,
    shortestPause: PAUSE_MS,
    longestPause: PAUSE_MS,
    async step() {
      const rows = await database("dead_letters").whereNull("carried_at").orderBy("created_at").limit(BATCH);
      if (rows.length === 0) return false;
      const count = await producer.partitionsOf(topic);
      await producer.send(
        rows.map((row) => ({ topic, partition: partitionFor(row.event_id, count), message: recordOf(row) })),
      );
      const sent = rows.map(({ consumer, event_id }) => [consumer, event_id]);
      await database("dead_letters")
        .whereIn(["consumer", "event_id"], sent)
        .update({ carried_at: clock.now() });
      return rows.length === BATCH;
    },
  });
}

function recordOf({ consumer, event_id, event, reason, origin, created_at }: DeadLetterRow) {
  const read = event as Omit<BusEvent, "createdAt"> & { createdAt: string };
  const record = toRecord({ ...read, createdAt: new Date(read.createdAt) });
  return {
    ...record,
    key: event_id,
    value: Buffer.from(read.payload).subarray(0, LARGEST_VALUE),
    timestamp: String(created_at.getTime()),
    headers: {
      ...record.headers,
      ...(read.type === UNREADABLE && { "content-type": "text/plain; charset=utf-8" }),
      deputize_consumer: consumer,
      deputize_reason: reason,
      ...(origin !== null && {
        deputize_origin_topic: origin.topic,
        deputize_origin_partition: String(origin.partition),
        deputize_origin_offset: origin.offset,
      }),
    },
  };
}

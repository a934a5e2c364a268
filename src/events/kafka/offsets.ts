import { setTimeout as sleep } from "node:timers/promises";
import type { Consumer as Client } from "kafkajs";
import { startLoop } from "../../concurrency/loop.ts";
import type { Logger } from "../../log.ts";

/** The offsets of handled records that are not committed to Kafka yet. */
export type Offsets = {
  /** Records that this record and all earlier records are committed in the database. */
  handled(place: { topic: string; partition: number }, offset: string): void;
  /** Commits the remaining offsets, if Kafka answers, and stops. */
  close(): Promise<void>;
};

const COMMIT_MS = 200;
const LAST_MS = 2_000;

/**
 * Commits a reader's offsets five times a second, in one request. After a fault, the records of that interval
 * arrive again, and the inbox recognizes them. Does not commit offsets of partitions that another member has
 * received.
 */
export function commitOffsets(reader: Client, log: Logger, name: string): Offsets {
  const behind = new Map<string, { topic: string; partition: number; offset: string }>();
  reader.on(reader.events.GROUP_JOIN, () => behind.clear());

  async function commit(): Promise<void> {
    if (behind.size === 0) return;
    const sent = [...behind];
    await reader.commitOffsets(sent.map(([, place]) => place));
    for (const [key, place] of sent) {
      if (behind.get(key) === place) behind.delete(key);
    }
  }

  const loop = startLoop({
    name: `offsets of ${name}`,
    log,
    shortestPause: COMMIT_MS,
    longestPause: COMMIT_MS,
    async step() {
      // During a rebalance the commit fails. The reader itself notices and joins the group again.
      await commit().catch((error: unknown) =>
        log.debug({ consumer: name, err: error }, "offsets not committed"),
      );
      return false;
    },
  });

  return {
    handled({ topic, partition }, offset) {
      const next = String(BigInt(offset) + 1n);
      behind.set(`${topic}/${partition}`, { topic, partition, offset: next });
    },
    async close() {
      const last = loop.stop().then(commit);
      await Promise.race([last.catch(() => undefined), sleep(LAST_MS, undefined, { ref: false })]);
    },
  };
}

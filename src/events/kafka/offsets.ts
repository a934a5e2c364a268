import { setTimeout as sleep } from "node:timers/promises";
import type { Consumer as Client } from "kafkajs";
import { startLoop } from "../../concurrency/loop.ts";
import type { Logger } from "../../log.ts";

/** How far a reader has come, and not yet told Kafka. */
export type Offsets = {
  /** The record with this offset, and those before it, are handled: that is committed in the database. */
  handled(place: { topic: string; partition: number }, offset: string): void;
  /** Tells Kafka what is left, if it answers, and ends. */
  close(): Promise<void>;
};

const COMMIT_MS = 200;
const LAST_MS = 2_000;

/**
 * Commits a reader's offsets five times a second, those of all its partitions in one request, however many
 * batches there were: after a fault records of so long come again, and the inbox knows them. What its group
 * has given to others since is not committed any more.
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
      // A group that has moved on is joined again when the reader hears of it, which is not here.
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

import type { Admin } from "kafkajs";

/**
 * How far a consumer group has come in one partition. Offsets are those of the next record to read or write.
 */
export type PartitionLag = {
  partition: number;
  /** Of the oldest record that is still kept. */
  low: bigint;
  end: bigint;
  /** `undefined` where the group has committed nothing. */
  committed: bigint | undefined;
  /** Records that are kept and that the group has not committed. */
  lag: number;
};

/**
 * How far a group has come in a topic, by partition in their order. The ends are read before the offsets.
 * Rejects when Kafka does not answer or has no such topic.
 */
export async function readLag(
  admin: Pick<Admin, "fetchTopicOffsets" | "fetchOffsets">,
  topic: string,
  groupId: string,
): Promise<PartitionLag[]> {
  const ends = await admin.fetchTopicOffsets(topic);
  const [group] = await admin.fetchOffsets({ groupId, topics: [topic] });
  const offsets = new Map(group?.partitions.map(({ partition, offset }) => [partition, BigInt(offset)]));
  return ends
    .map(({ partition, high, low }) => lagOf(partition, BigInt(low), BigInt(high), offsets.get(partition)))
    .sort((one, other) => one.partition - other.partition);
}

/** Kafka says -1 for an offset that was never committed. */
function lagOf(partition: number, low: bigint, end: bigint, offset = -1n): PartitionLag {
  const committed = offset < 0n ? undefined : offset;
  const from = committed === undefined || committed < low ? low : committed;
  return { partition, low, end, committed, lag: Math.max(0, Number(end - from)) };
}

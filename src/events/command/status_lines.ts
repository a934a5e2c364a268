import type { WebhookDeliveryRow } from "../../db/tables.ts";
import type { CarrierKind } from "../published.ts";
import type { GroupStatus, KafkaStatus } from "./kafka_status.ts";
import { counted, printable } from "./report.ts";

/** The state of events. Ages are in seconds, and `null` if nothing waits. `way` is the recorded carrier. */
export type EventsStatus = {
  way: CarrierKind;
  /** The setting EVENTS of this command. */
  setting: CarrierKind;
  outbox: Waiting & { shards: Shard[] };
  history_queue: Waiting;
  published: { kept: number; oldest_at: string | null };
  dead_letters: Record<string, number>;
  deliveries: Record<WebhookDeliveryRow["state"], number>;
  suspended_endpoints: { count: number; oldest: SuspendedEndpoint[] };
  kafka: KafkaStatus | null;
};

/** The number of waiting rows and the age of the oldest. */
export type Waiting = { waiting: number; oldest_seconds: number | null };
/** A shard of the outbox, and the worker that relays it. */
export type Shard = Waiting & { shard: number; owner: string | null };
/** An endpoint that receives nothing. `held` deliveries wait until it is resumed. */
export type SuspendedEndpoint = { connection_id: string; since: string; reason: string | null; held: number };

/** Formats the status as human-readable lines. */
export function statusLines(status: EventsStatus): string[] {
  const { published, suspended_endpoints: suspended } = status;
  const letters = Object.entries(status.dead_letters).map(([name, count]) => `${name} ${count}`);
  const deliveries = Object.entries(status.deliveries).map(([state, count]) => `${state} ${count}`);
  return [
    line("Way", carrierOf(status)),
    line("Outbox", waitingOf(status.outbox)),
    ...shardLines(status.outbox.shards),
    line("History queue", waitingOf(status.history_queue)),
    line(
      "Published",
      published.oldest_at === null
        ? "none kept"
        : `${published.kept} kept, the oldest since ${published.oldest_at}`,
    ),
    line("Dead letters", letters.join(", ")),
    line("Deliveries", deliveries.join(", ")),
    line("Suspended", counted(suspended.count, "endpoint")),
    ...suspended.oldest.map(
      ({ connection_id, since, reason, held }) =>
        `  connection ${connection_id} since ${since} (${reason}), ${held} held`,
    ),
    ...(status.kafka === null ? [] : kafkaLines(status.kafka)),
  ].map(printable);
}

function line(name: string, text: string): string {
  return `${name.padEnd("History queue".length)}  ${text}`;
}

function carrierOf({ way, setting }: EventsStatus): string {
  if (way === setting) return way;
  return `${way}, from the latest start of a worker; EVENTS=${setting} is set here`;
}

function waitingOf({ waiting, oldest_seconds }: Waiting): string {
  return oldest_seconds === null ? "nothing waits" : `${waiting} waiting, the oldest for ${oldest_seconds} s`;
}

function shardLines(shards: readonly Shard[]): string[] {
  const said = (shard: Shard) =>
    `${waitingOf(shard)}, ${shard.owner === null ? "no worker" : `worker ${shard.owner}`}`;
  return [...Map.groupBy(shards, said)].map(
    ([text, alike]) =>
      `  shard${alike.length > 1 ? "s" : ""} ${alike.map(({ shard }) => shard).join(", ")}: ${text}`,
  );
}

function kafkaLines(kafka: KafkaStatus): string[] {
  if ("error" in kafka) return [line("Kafka", `could not be queried: ${kafka.error}`)];
  return [
    ...kafka.topics.map(({ topic, partitions }) =>
      line(
        "Topic",
        partitions === 0
          ? `${topic} is missing: run deputize migrate`
          : `${topic}, ${counted(partitions, "partition")}`,
      ),
    ),
    ...kafka.groups.flatMap(groupLines),
  ];
}

function groupLines({ group, topic, lag, partitions }: GroupStatus): string[] {
  return [
    line("Group", `${group} has ${counted(lag, "record")} of ${topic} to read`),
    ...partitions
      .filter(({ end }) => end > 0)
      .map(({ partition, committed, end, lag: ofIt }) => {
        const read = committed === null ? "nothing committed" : `committed ${committed}`;
        return `  partition ${partition}: ${read}, end ${end}, lag ${ofIt}`;
      }),
  ];
}

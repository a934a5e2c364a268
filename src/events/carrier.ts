import { StartError } from "../config.ts";
import type { Database } from "../db/database.ts";
import type { KafkaSettings } from "../input/event_settings.ts";
import type { Bus } from "./bus.ts";
import { type BusDeps, createLocalBus } from "./consume.ts";
import { type EventWay, type Reader, returnUnhandled } from "./published.ts";

/** The way that events take from the outbox to their consumers, and the bus that it is made of. */
export type EventCarrier = { way: EventWay; open(deps: BusDeps): Bus };

/** Inside the worker, by way of the database alone. */
export const embeddedCarrier: EventCarrier = { way: "embedded", open: createLocalBus };

/**
 * Kafka, where there are settings for it; its library is loaded only then. `fatal` is told what it cannot go
 * on after.
 */
export async function openCarrier(
  settings: KafkaSettings | undefined,
  fatal: (error: Error) => void,
): Promise<EventCarrier> {
  if (settings === undefined) return embeddedCarrier;
  const { createKafkaBus } = await import("./kafka/kafka_bus.ts");
  return { way: "kafka", open: (deps) => createKafkaBus({ ...deps, settings, fatal }) };
}

/** Another way was asked for while events wait to go the one that is known. */
export class WaitingEventsError extends StartError {
  readonly left: number;
  readonly known: EventWay;

  constructor(way: EventWay, known: EventWay, left: number) {
    super(
      `EVENTS=${way}, but ${left} events still wait to go the way EVENTS=${known}: start the worker with that until none is left`,
    );
    this.left = left;
    this.known = known;
  }
}

/**
 * Notes the way that events take from now on. Another one than before is refused while events wait: those of
 * one connection would overtake each other. What Kafka has and the consumers have not handled is given back
 * to the outbox when the way leads there no more. Throws `WaitingEventsError` with how many wait.
 */
export async function takeWay(
  database: Database,
  { way }: Pick<EventCarrier, "way">,
  consumers: readonly Reader[],
): Promise<void> {
  await database.transaction(async (tx) => {
    const known = (await tx("event_way").forUpdate().first("way"))?.way ?? "embedded";
    if (known === way) return;
    const [waiting] = await tx("outbox").count();
    const left = Number(waiting?.count);
    if (left > 0) throw new WaitingEventsError(way, known, left);
    if (way === "embedded") {
      for (const consumer of consumers) await returnUnhandled(tx, consumer);
    }
    await tx("event_way").update({ way });
  });
}

/** Throws `StartError` when a worker has been started meanwhile that took another way. */
export async function checkWay(database: Database, { way }: EventCarrier): Promise<void> {
  const known = await database("event_way").first("way");
  if (known === undefined || known.way === way) return;
  throw new StartError(
    `EVENTS=${way}, but another worker has been started with EVENTS=${known.way}: start this one with that too`,
  );
}

import { StartError } from "../config.ts";
import type { Database } from "../db/database.ts";
import type { KafkaSettings } from "../input/event_settings.ts";
import type { Bus } from "./bus.ts";
import { type BusDeps, createLocalBus } from "./consume.ts";
import { type CarrierKind, type Reader, returnUnhandled } from "./published.ts";

/** A value of the setting `EVENTS`, and the function that opens its bus. */
export type EventCarrier = { kind: CarrierKind; open(deps: BusDeps): Bus };

/** Events travel inside the worker, through the database only. */
export const embeddedCarrier: EventCarrier = { kind: "embedded", open: createLocalBus };

/**
 * Returns the carrier for Kafka, or the embedded carrier if `settings` is undefined. The bus calls `fatal`
 * with an error after which it cannot continue.
 */
export async function openCarrier(
  settings: KafkaSettings | undefined,
  fatal: (error: Error) => void,
): Promise<EventCarrier> {
  if (settings === undefined) return embeddedCarrier;
  const { createKafkaBus } = await import("./kafka/kafka_bus.ts");
  return { kind: "kafka", open: (deps) => createKafkaBus({ ...deps, settings, fatal }) };
}

/** `EVENTS` has changed, but some events still wait for the previous carrier. */
export class WaitingEventsError extends StartError {
  readonly left: number;
  readonly known: CarrierKind;

  constructor(kind: CarrierKind, known: CarrierKind, left: number) {
    super(
      `EVENTS=${kind}, but ${left} events still wait from EVENTS=${known}: start the worker with EVENTS=${known} until no event waits`,
    );
    this.left = left;
    this.known = known;
  }
}

/**
 * Records the setting `EVENTS` for all workers. Throws `WaitingEventsError` while events wait in the outbox,
 * because later events of the same connection could overtake them. On a change from `kafka` to `embedded`,
 * puts events that a consumer has not handled into the outbox again.
 */
export async function adoptCarrier(
  database: Database,
  { kind }: Pick<EventCarrier, "kind">,
  consumers: readonly Reader[],
): Promise<void> {
  await database.transaction(async (tx) => {
    const known = (await tx("event_way").forUpdate().first("way"))?.way ?? "embedded";
    if (known === kind) return;
    const [waiting] = await tx("outbox").count();
    const left = Number(waiting?.count);
    if (left > 0) throw new WaitingEventsError(kind, known, left);
    if (kind === "embedded") {
      for (const consumer of consumers) await returnUnhandled(tx, consumer);
    }
    await tx("event_way").update({ way: kind });
  });
}

/** Throws `StartError` if another worker has recorded a different `EVENTS` since this worker started. */
export async function checkCarrier(database: Database, { kind }: EventCarrier): Promise<void> {
  const known = await database("event_way").first("way");
  if (known === undefined || known.way === kind) return;
  throw new StartError(
    `EVENTS=${kind}, but another worker has been started with EVENTS=${known.way}: start this one with EVENTS=${known.way} too`,
  );
}

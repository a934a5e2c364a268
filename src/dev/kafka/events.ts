import { readMigrateConfig } from "../../config.ts";
import { openDatabase } from "../../db/database.ts";
import { adoptCarrier, WaitingEventsError } from "../../events/carrier.ts";
import { type KafkaSettings, kafkaSettings } from "../../input/event_settings.ts";
import { readers } from "../../installation/readers.ts";
import { createLog } from "../../log.ts";
import { UserError } from "../user_error.ts";

/** Returns the settings of the event transport. Without an `address` of Kafka, the transport is embedded. */
export function eventsEnvironment(address: string | undefined): Record<string, string> {
  if (address === undefined) return { EVENTS: "embedded" };
  return { EVENTS: "kafka", KAFKA_BROKERS: address, KAFKA_REPLICATION: "1" };
}

/**
 * Records the transport that carries events from now on, and creates Kafka's topics. Call this function only
 * while nothing appends events. Throws `UserError` if events still wait in the other transport.
 */
export async function prepareEvents(databaseUrl: string, environment: Record<string, string>): Promise<void> {
  const settings = kafkaSettings(readMigrateConfig({ DATABASE_URL: databaseUrl, ...environment }));
  if (settings !== undefined) await makeTopics(settings);
  const database = openDatabase({ url: databaseUrl, name: "deputize-dev", max: 1, onError: () => {} });
  try {
    await adoptCarrier(database, { kind: settings === undefined ? "embedded" : "kafka" }, readers);
  } catch (error) {
    throw error instanceof WaitingEventsError ? waiting(error) : error;
  } finally {
    await database.destroy();
  }
}

/** Loads Kafka's client library only if it is needed. */
async function makeTopics(settings: KafkaSettings): Promise<void> {
  const [{ createKafkaClient }, { ensureTopics }] = await Promise.all([
    import("../../events/kafka/client.ts"),
    import("../../events/kafka/topics.ts"),
  ]);
  await ensureTopics(createKafkaClient(settings, createLog("silent", "dev")), settings);
}

function waiting({ left, known }: WaitingEventsError): UserError {
  const how = known === "kafka" ? "with --kafka" : "without --kafka";
  return new UserError(
    `${left} ${left === 1 ? "event" : "events"} of the last start, ${how}, ${left === 1 ? "is" : "are"} not delivered yet`,
    `Start ${how} again, wait a few seconds, and stop with Ctrl-C; then you can switch`,
  );
}

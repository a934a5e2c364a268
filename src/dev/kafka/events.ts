import { readMigrateConfig } from "../../config.ts";
import { openDatabase } from "../../db/database.ts";
import { takeWay, WaitingEventsError } from "../../events/carrier.ts";
import { type KafkaSettings, kafkaSettings } from "../../input/event_settings.ts";
import { readers } from "../../installation/readers.ts";
import { createLog } from "../../log.ts";
import { UserError } from "../user_error.ts";

/** What carries the stack's events, as its parts are told; `address` is Kafka's, where there is one. */
export function eventsEnvironment(address: string | undefined): Record<string, string> {
  if (address === undefined) return { EVENTS: "embedded" };
  return { EVENTS: "kafka", KAFKA_BROKERS: address, KAFKA_REPLICATION: "1" };
}

/**
 * Makes the topics, where there is Kafka, and notes the way that events take from now on. To be called while
 * nobody appends events. Throws `UserError` when some still wait to go the other way.
 */
export async function prepareEvents(databaseUrl: string, environment: Record<string, string>): Promise<void> {
  const settings = kafkaSettings(readMigrateConfig({ DATABASE_URL: databaseUrl, ...environment }));
  if (settings !== undefined) await makeTopics(settings);
  const database = openDatabase({ url: databaseUrl, name: "deputize-dev", max: 1, onError: () => {} });
  try {
    await takeWay(database, { way: settings === undefined ? "embedded" : "kafka" }, readers);
  } catch (error) {
    throw error instanceof WaitingEventsError ? waiting(error) : error;
  } finally {
    await database.destroy();
  }
}

/** Kafka's library is loaded only here. */
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
    `${left} ${left === 1 ? "event still waits" : "events still wait"} to go the way of the last start, ${how}`,
    `Start ${how} once more, give the worker a few seconds, and end it with Ctrl-C; then events can go the other way`,
  );
}

import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../../src/db/database.ts";
import { createKafkaClient } from "../../src/events/kafka/client.ts";
import { readLag } from "../../src/events/kafka/lag.ts";
import { groupOf, topics } from "../../src/events/kafka/settings.ts";
import { type HistoryRow, historyColumns, showHistoryRow } from "../../src/history/history_entry.ts";
import type { KafkaSettings } from "../../src/input/event_settings.ts";
import { readTopic, SILENT } from "../events/kafka/kafka_world.ts";
import { openLines } from "./lines.ts";

type Source = { database: Database; settings: KafkaSettings; folder: string };

/** Returns how many items have not arrived yet, as one string for each kind. */
export async function underWay({ database, settings }: Source): Promise<string[]> {
  const { rows } = await database.raw(
    `select (select count(*) from outbox) as "events in the outbox",
            (select count(*) from history_queue) as "rows of the history",
            (select count(*) from webhook_deliveries where settled_at is null) as deliveries,
            (select count(*) from dead_letters where carried_at is null) as "dead letters"`,
  );
  const lags = await readLags(settings);
  const waiting = { ...(rows[0] as Record<string, number>), "records unread": lags };
  return Object.entries(waiting)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name}`);
}

async function readLags(settings: KafkaSettings): Promise<number> {
  const admin = createKafkaClient(settings, SILENT).admin();
  await admin.connect();
  try {
    const topic = `${settings.prefix}${topics.lifecycle}`;
    const groups = ["webhooks", "notices"].map((name) => groupOf(settings, { name }));
    const lags = await Promise.all(groups.map((group) => readLag(admin, topic, group)));
    return lags.flat().reduce((sum, { lag }) => sum + lag, 0);
  } finally {
    await admin.disconnect();
  }
}

/** Waits until everything has arrived. Rejects with a list of missing items after `seconds`. */
export async function untilQuiet(source: Source, seconds: number): Promise<void> {
  let waiting: string[] = [];
  for (let waited = 0; waited < seconds; waited += 2) {
    waiting = await underWay(source).catch((error: Error) => [error.message]);
    if (waiting.length === 0) return;
    await sleep(2_000);
  }
  throw new Error(`Still under way after ${seconds} s: ${waiting.join(", ")}`);
}

/** Writes the contents of the database and the topics to the run's folder. */
export async function dump(source: Source): Promise<void> {
  await dumpDeliveries(source);
  await dumpDeadLetters(source);
  await dumpHistory(source);
}

/** Writes the deliveries of all connections, or of the given ones. */
export async function dumpDeliveries(
  { database, folder }: Pick<Source, "database" | "folder">,
  connectionIds: readonly string[] | null = null,
): Promise<void> {
  const { rows } = await database.raw(
    `select d.delivery_id, e.connection_id, d.state, d.attempts,
            array_agg(a.started_at) filter (where a.outcome = 'lost') as lost_from,
            array_agg(a.ended_at) filter (where a.outcome = 'lost') as lost_until
     from webhook_deliveries d join webhook_endpoints e using (endpoint_id)
     left join webhook_attempts a using (delivery_id)
     where :connectionIds::uuid[] is null or e.connection_id = any (:connectionIds)
     group by d.delivery_id, e.connection_id order by e.connection_id, d.aggregate_seq`,
    { connectionIds },
  );
  const lines = openLines(folder, "deliveries");
  for (const row of rows) {
    const untils: Date[] = row.lost_until ?? [];
    const lost = (row.lost_from ?? []).map((from: Date, n: number) => ({
      from: from.getTime(),
      until: untils[n]?.getTime() ?? 0,
    }));
    const { delivery_id: deliveryId, connection_id: connectionId, state, attempts } = row;
    lines.write({ deliveryId, connectionId, state, attempts, lost });
  }
  await lines.close();
}

async function dumpDeadLetters({ database, settings, folder }: Source): Promise<void> {
  const rows = await database("dead_letters").orderBy("created_at");
  const lines = openLines(folder, "dead_letters");
  for (const { event_id: eventId, event } of rows) {
    const { type, payload } = event as { type: string; payload: string };
    const id = type === "unreadable" ? null : String(JSON.parse(payload).org_name);
    lines.write({ eventId, id, type });
  }
  await lines.close();
  const records = openLines(folder, "dead_letter_records");
  for (const { headers } of await readAll(settings, topics.deadLetters)) {
    records.write({ eventId: String(headers.ce_id) });
  }
  await records.close();
}

async function dumpHistory({ database, settings, folder }: Source): Promise<void> {
  const rows = await database("audit_events as e")
    .orderBy(["e.account_id", "e.occurred_at", "e.event_id"])
    .select("e.account_id", ...historyColumns(database));
  const history = openLines(folder, "history");
  for (const row of rows as (HistoryRow & { account_id: string })[]) {
    history.write({ accountId: row.account_id, entry: JSON.stringify(showHistoryRow(row)) });
  }
  await history.close();
  const audit = openLines(folder, "audit");
  for (const { key, value, headers } of await readAll(settings, topics.audit)) {
    audit.write({ accountId: key, recordId: String(headers.ce_id), entry: value });
  }
  await audit.close();
}

async function readAll(settings: KafkaSettings, name: string) {
  const admin = createKafkaClient(settings, SILENT).admin();
  await admin.connect();
  const ends = await admin.fetchTopicOffsets(`${settings.prefix}${name}`);
  await admin.disconnect();
  return readTopic(
    settings,
    name,
    ends.reduce((sum, { high, low }) => sum + Number(high) - Number(low), 0),
  );
}

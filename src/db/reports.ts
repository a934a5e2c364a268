import type { Database } from "./database.ts";

/** A stored finding about a subject, such as Kafka's lag, and the time of the finding. */
export type Report<Content> = { at: Date; content: Content };

/** Stores the latest finding about a subject. An older report never replaces a newer one. */
export async function writeReport(
  database: Database,
  subject: string,
  { at, content }: Report<object>,
): Promise<void> {
  await database.raw(
    `insert into reports as known values (:subject, :at, :content)
     on conflict (subject) do update set reported_at = excluded.reported_at, content = excluded.content
     where known.reported_at <= excluded.reported_at`,
    { subject, at, content: JSON.stringify(content) },
  );
}

/** Returns the latest finding about a subject, or undefined if there is none. */
export async function readReport<Content>(
  database: Database,
  subject: string,
): Promise<Report<Content> | undefined> {
  const row = await database("reports").where({ subject }).first("reported_at", "content");
  return row === undefined ? undefined : { at: row.reported_at, content: row.content as Content };
}

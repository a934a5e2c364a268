import type { Database } from "../../../src/db/database.ts";

/** Tables that change although a call was refused: counts, activity, mails about earlier calls, key uses. */
const CHANGING = [
  "rate_limits",
  "organization_activity",
  "mail_topics",
  "mailing_queues",
  "notices",
  "key_uses",
];

async function tablesOf(db: Database): Promise<string[]> {
  const { rows } = await db.raw(
    "select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'",
  );
  return rows.map(({ name }: { name: string }) => name);
}

/** Returns a hash of each database table. A refused call must leave every hash unchanged. */
export async function stored(db: Database): Promise<Record<string, string>> {
  const names = await tablesOf(db);
  const hashes = names
    .filter((name) => !CHANGING.includes(name))
    .map(
      (name) =>
        `select '${name}' as name, md5(coalesce(string_agg(t::text, E'\\n' order by t::text), '')) as hash from "${name}" t`,
    );
  const { rows } = await db.raw(hashes.join(" union all "));
  return Object.fromEntries(rows.map(({ name, hash }: { name: string; hash: string }) => [name, hash]));
}

/** Returns the tables that contain the string, as text or as bytes. */
export async function tablesThatHold(db: Database, text: string): Promise<string[]> {
  const found = await Promise.all(
    (await tablesOf(db)).map(async (name) => {
      const { rows } = await db.raw(
        `select 1 from "${name}" t where position(? in t::text) > 0 or position(? in t::text) > 0 limit 1`,
        [text, Buffer.from(text).toString("hex")],
      );
      return rows.length > 0 ? name : undefined;
    }),
  );
  return found.filter((name) => name !== undefined);
}

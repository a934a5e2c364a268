import { createHash } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Database, Transaction } from "../../db/database.ts";
import type { Month } from "../../db/months.ts";
import { appliedMigrations } from "../../db/schema_state.ts";
import type { CheckedArchive } from "./check_archive.ts";
import {
  type ArchivedFile,
  type ArchivedTable,
  archivedTables,
  HistoryError,
  MANIFEST,
  type Manifest,
  manifestOf,
  manifestText,
  parseManifest,
  rowCounts,
} from "./form.ts";

const FETCHED = 2_000;
/** The compression level. It saves most of the space that higher levels save, in a third of their time. */
const LEVEL = 4;
/** File modes: only the owner may read the archive, because receipts state what people's agents did. */
const [OWNER_FOLDER, OWNER_FILE] = [0o700, 0o600];
const UNFINISHED = ".unfinished";

/**
 * Writes a month of the history, as it is at one moment, into its own folder under `to`. `repeated` is true
 * if the folder already contained this archive. The manifest is written after all other files are on disk, so
 * a killed run leaves an archive without a manifest. The same rows always result in the same bytes. Throws
 * `HistoryError` if a different archive exists, or if another run is active.
 */
export async function writeArchive(
  db: Database,
  { month, to }: { month: Month; to: string },
): Promise<{ folder: string; repeated: boolean }> {
  const folder = join(to, month.name);
  const schema = (await appliedMigrations(db)).at(-1) ?? "";
  await mkdir(folder, { recursive: true, mode: OWNER_FOLDER });
  return db.transaction(
    async (tx) => {
      await prepare(tx);
      const files: ArchivedFile[] = [];
      for (const table of archivedTables) files.push(await writeTable(tx, folder, table, month));
      const content = manifestOf(month, schema, files);
      const repeated = await isThere(folder, content);
      if (repeated) {
        for (const { name } of files) await rm(join(folder, name + UNFINISHED));
      } else {
        await finish(folder, content);
      }
      return { folder, repeated };
    },
    { isolationLevel: "repeatable read", readOnly: true },
  );
}

async function prepare(tx: Transaction): Promise<void> {
  const { rows } = await tx.raw<{ rows: { free: boolean }[] }>(
    "select pg_try_advisory_xact_lock(hashtext('deputize.history.archive')) as free",
  );
  if (rows[0]?.free !== true) {
    throw new HistoryError(
      "Another run is creating an archive: wait until it ends, then run the command again",
    );
  }
  // These settings determine how Postgres writes times and bytes into JSON.
  await tx.raw("set local timezone = 'UTC'");
  await tx.raw("set local bytea_output = 'hex'");
}

async function writeTable(
  tx: Transaction,
  folder: string,
  table: ArchivedTable,
  month: Month,
): Promise<ArchivedFile> {
  const seen = { rows: 0, first: null as string | null, last: null as string | null, bytes: 0 };
  const sha256 = createHash("sha256");
  const counting = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sha256.update(chunk);
      seen.bytes += chunk.length;
      done(null, chunk);
    },
  });
  const handle = await open(join(folder, table.file + UNFINISHED), "w", OWNER_FILE);
  try {
    await pipeline(
      Readable.from(readLines(tx, table, month, seen)),
      createGzip({ level: LEVEL }),
      counting,
      (content) => handle.writeFile(content),
    );
    await handle.sync();
  } finally {
    await handle.close();
  }
  const { rows, first, last, bytes } = seen;
  return { table: table.table, name: table.file, rows, first, last, bytes, sha256: sha256.digest("hex") };
}

type Seen = { rows: number; first: string | null; last: string | null };

async function* readLines(
  tx: Transaction,
  { table, column, key, columns, only }: ArchivedTable,
  { from, to }: Month,
  seen: Seen,
): AsyncGenerator<string> {
  await tx.raw(
    `declare month_rows no scroll cursor for
     select row_to_json(r)::text as line, to_json(r.${column}) #>> '{}' as moment from (
       select ${columns.join(", ")} from ${table}
       where ${column} >= '${from.toISOString()}' and ${column} < '${to.toISOString()}'
         ${only === undefined ? "" : `and ${only}`}
       order by ${key.join(", ")}
     ) r`,
  );
  for (;;) {
    const { rows } = await tx.raw<{ rows: { line: string; moment: string }[] }>(
      `fetch ${FETCHED} from month_rows`,
    );
    if (rows.length === 0) break;
    seen.rows += rows.length;
    for (const { moment } of rows) {
      if (seen.first === null || moment < seen.first) seen.first = moment;
      if (seen.last === null || moment > seen.last) seen.last = moment;
    }
    yield rows.map(({ line }) => `${line}\n`).join("");
  }
  await tx.raw("close month_rows");
}

/** Checks whether the archive already exists. Throws if the folder has a different archive of the month. */
async function isThere(folder: string, { files }: Manifest): Promise<boolean> {
  const text = await readFile(join(folder, MANIFEST), "utf8").catch((error) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return false;
  if (JSON.stringify(parseManifest(text)?.files) === JSON.stringify(files)) return true;
  for (const { name } of files) await rm(join(folder, name + UNFINISHED));
  throw new HistoryError(
    `${folder} contains a different archive of this month, which was not changed: keep it, and give another folder`,
  );
}

async function finish(folder: string, content: Manifest): Promise<void> {
  for (const { name } of content.files) await rename(join(folder, name + UNFINISHED), join(folder, name));
  await syncFolder(folder);
  const path = join(folder, MANIFEST);
  const handle = await open(path + UNFINISHED, "w", OWNER_FILE);
  try {
    await handle.writeFile(manifestText(content));
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(path + UNFINISHED, path);
  await syncFolder(folder);
}

/** Syncs the folder, because only then are the names of its files on disk. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Records that a month was archived. Pass only an archive that was read back and is complete. */
export async function noteArchive(
  db: Database,
  { month, manifest, hash }: Omit<CheckedArchive, "receipts">,
  now: Date,
): Promise<void> {
  await db("history_archives")
    .insert({
      starts_at: month.from,
      ends_at: month.to,
      manifest_hash: hash,
      row_counts: JSON.stringify(rowCounts(manifest)),
      archived_at: now,
    })
    .onConflict(["starts_at", "manifest_hash"])
    .ignore();
}

/** Returns the time before which the history was dropped, or `undefined` if nothing was ever dropped. */
export async function readHistoryBegin(db: Database): Promise<Date | undefined> {
  const row = await db("history_archives")
    .whereNotNull("dropped_at")
    .orderBy("ends_at", "desc")
    .first("ends_at");
  return row?.ends_at;
}

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, normalize, sep } from "node:path";
import type { Knex } from "knex";
import type { Config } from "../config.ts";
import { appliedMigrations, dropSchema, migrateTo, migrationNames, withSchemaLock } from "../db/migrate.ts";
import { grantPrivileges } from "../db/privileges.ts";
import { makePrivateFolder, moveFolderDurably } from "../files.ts";
import type { Logger } from "../log.ts";
import { Problem } from "../problem.ts";
import { type Checked, checkBackup, type Origin } from "./check.ts";
import { BACKUP_TABLES, type EndLine, type Manifest, type RowsLine } from "./contents.ts";
import { type BackupSource, notWhole, openLines, readLine } from "./lines.ts";

/**
 * What was restored. `head` is the audit chain's last record at the time of the backup; `upgraded` names the migrations that the rows went
 * through, none for a backup with the newest tables; `signed_by` is the service key's id, null for a backup that is not signed.
 */
export type Restored = {
  created_at: string;
  signed_by: string | null;
  head: Manifest["head"];
  counts: Record<string, number>;
  upgraded: string[];
};

/**
 * Puts a backup of this origin back on a machine that has no vault: an empty database, no token. It is read to its end, and its signature
 * checked, before anything is written, and read once more to be stored. One transaction makes the tables that the backup's rows
 * fit, stores these and brings them to the newest schema, as an upgrade in place does; the token is moved into place when it is whole. So a
 * restore that fails, for whatever reason, leaves nothing.
 *
 * @throws Problem when there is something already, or the backup is of another origin, altered, damaged, cut off, of a newer version or for another key
 */
export async function restoreBackup(
  config: Config,
  backup: BackupSource,
  { recoveryKey, origin }: { recoveryKey: string; origin: Origin },
  log: Logger,
): Promise<Restored> {
  if (config.token.managed && existsSync(config.token.dir))
    throw new Problem(`There is a token in ${config.token.dir}: restore where no vault is`);
  const checked = await checkBackup(backup, recoveryKey, origin);
  await makePrivateFolder(config.dataDir);
  const aside = `${config.token.dir}.unfinished`;
  const store = async (transaction: Knex.Transaction, running: string | undefined): Promise<Restored> => {
    await transaction.raw("SET LOCAL lock_timeout = '5s'");
    await requireEmpty(transaction);
    const lines = openLines(backup(), recoveryKey);
    const token = { aside, managed: config.token.managed };
    const stored = await storeLines(lines, checked, transaction, token);
    const upgraded = await migrateTo(transaction, newestMigration());
    if (running !== undefined) await grantPrivileges(transaction, running);
    if (config.token.managed) await moveFolderDurably(aside, config.token.dir);
    return { ...stored, signed_by: checked.signedBy, upgraded };
  };
  try {
    return await withSchemaLock(config, log, (database, running) =>
      database.transaction((transaction) => store(transaction, running)),
    );
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    throw error;
  }
}

async function requireEmpty(transaction: Knex.Transaction): Promise<void> {
  for (const { table } of BACKUP_TABLES) {
    if (!(await transaction.schema.hasTable(table))) continue;
    await transaction.raw("LOCK TABLE ?? IN ACCESS EXCLUSIVE MODE", [table]);
    const row: unknown = await transaction(table).first(transaction.raw("1"));
    if (row !== undefined) throw new Problem("The database holds a vault already: restore into an empty one");
  }
}

/** Gives an empty database exactly the tables that rows of these migrations fit. */
async function makeTables(transaction: Knex.Transaction, migrations: readonly string[]): Promise<void> {
  const applied = await appliedMigrations(transaction);
  if (applied.length > migrations.length) await dropSchema(transaction);
  await migrateTo(transaction, migrations.at(-1) ?? newestMigration());
}

function newestMigration(): string {
  return migrationNames().at(-1) ?? "";
}

async function storeLines(
  lines: AsyncIterable<Buffer>,
  checked: Checked,
  transaction: Knex.Transaction,
  token: { aside: string; managed: boolean },
): Promise<Omit<Restored, "upgraded" | "signed_by">> {
  const digest = createHash("sha256");
  const counts: Record<string, number> = {};
  let manifest: Manifest | undefined;
  let end: EndLine | undefined;
  for await (const text of lines) {
    const line = readLine(text);
    if ((line.kind === "manifest") !== (manifest === undefined)) throw notWhole();
    if (line.kind === "signature") continue;
    digest.update(text);
    if (line.kind === "manifest") {
      manifest = requireFitting(line, token.managed);
      await makeTables(transaction, line.migrations);
      await writeToken(token.aside, line.token);
    } else if (line.kind === "rows") {
      await insertRows(transaction, line);
      counts[line.table] = (counts[line.table] ?? 0) + line.rows.length;
    } else end = line;
  }
  if (manifest === undefined || end === undefined) throw notWhole();
  if (!digest.digest().equals(checked.digest))
    throw new Problem(
      "The backup was altered while it was read: restore it again from a file that nobody else writes",
    );
  requireCounts(end, counts);
  return { created_at: manifest.created_at, head: manifest.head, counts: end.counts };
}

function requireCounts(end: EndLine, counts: Readonly<Record<string, number>>): void {
  for (const [table, count] of Object.entries(end.counts))
    if ((counts[table] ?? 0) !== count) throw new Problem(`The backup lacks rows of ${table}`);
}

function requireFitting(manifest: Manifest, managed: boolean): Manifest {
  const own = migrationNames();
  const { migrations } = manifest;
  const newest = migrations.at(-1);
  if (newest === undefined) throw notWhole();
  if (migrations.some((name, index) => name !== own[index]))
    throw new Problem(
      `The backup has the tables of a newer version: restore it with one that has ${newest}, this one ends with ${newestMigration()}`,
    );
  const hasToken = Object.keys(manifest.token).length > 0;
  if (hasToken && !managed)
    throw new Problem("The backup holds a SoftHSM token, and KEYVAULT_PKCS11_MODULE names another module");
  if (managed && !hasToken)
    throw new Problem("The backup holds no token: name the module that has it by KEYVAULT_PKCS11_MODULE");
  return manifest;
}

async function insertRows(transaction: Knex.Transaction, { table, rows }: RowsLine): Promise<void> {
  if (!BACKUP_TABLES.some(({ table: name }) => name === table))
    throw new Problem("The backup has a table that is unknown here");
  await transaction.raw("INSERT INTO ?? SELECT * FROM jsonb_populate_recordset(NULL::??, ?::jsonb)", [
    table,
    table,
    JSON.stringify(rows),
  ]);
}

async function writeToken(folder: string, files: Record<string, string>): Promise<void> {
  if (Object.keys(files).length === 0) return;
  await rm(folder, { recursive: true, force: true });
  await makePrivateFolder(folder);
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, normalize(name));
    if (!path.startsWith(folder + sep)) throw new Problem("The backup has a file outside the token's folder");
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, Buffer.from(content, "base64"), { mode: 0o600 });
  }
}

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Knex } from "knex";
import type { Config } from "../config.ts";
import {
  appliedMigrations,
  dropSchema,
  grantPrivileges,
  migrateTo,
  migrationNames,
  withSchemaLock,
} from "../db/migrate.ts";
import { UserError } from "../errors.ts";
import { makeFolderDurably, makePrivateFolder } from "../files.ts";
import type { Logger } from "../log.ts";
import { type Checked, checkBackup, type Origin, requireKnownTables } from "./check.ts";
import {
  BACKUP_TABLES,
  type BackupSource,
  type EndLine,
  incompleteBackup,
  type Manifest,
  openLines,
  type RowsLine,
  readLine,
} from "./format.ts";

/** SQLSTATE classes of a value that does not fit its column or violates a constraint. */
const UNFIT = /^2[23][0-9A-Z]{3}$/;

/** File system error codes that occur if another process removes a folder or creates files in it. */
const TAKEN_AWAY = new Set(["ENOENT", "ENOTEMPTY", "EEXIST"]);

/**
 * Table of an earlier version, which stored some keys in the token. Backups of that version count its rows.
 */
const RESIDENTS = "residents";

/**
 * Result of a restore. `head` is the last record of the backup's audit chain. `upgraded` names the migrations
 * applied to the restored rows. `signed_by` is the service key's id, or null for an unsigned backup.
 */
export type Restored = {
  created_at: string;
  signed_by: string | null;
  head: Manifest["head"];
  counts: Record<string, number>;
  upgraded: string[];
};

/**
 * Restores a backup of this origin on a machine without a vault: the database is empty and there is no token.
 * Reads the backup to its end and checks its signature before it writes anything. Then reads the backup again
 * to store it. One transaction creates the tables for the backup's rows, stores the rows, and migrates them
 * to the newest schema, like an upgrade in place. A failed restore leaves nothing behind, with one exception:
 * if the connection fails during the commit, the token exists, and the rows may exist. Throws `UserError` if
 * a vault already exists. Also throws it if the backup has a different origin, was altered, is damaged, is
 * cut off, comes from a newer version, or is for another recovery key.
 */
export async function restoreBackup(
  config: Config,
  backup: BackupSource,
  { recoveryKey, origin }: { recoveryKey: string; origin: Origin },
  log: Logger,
): Promise<Restored> {
  if (config.token.managed && existsSync(config.token.dir)) {
    throw new UserError(`There is a token in ${config.token.dir}: restore where there is no vault yet`);
  }
  const checked = await checkBackup(backup, recoveryKey, origin);
  await makePrivateFolder(config.dataDir);
  let isMoved = false;
  const restoring = withSchemaLock(config, log, (database, running) =>
    database.transaction(async (transaction) => {
      await transaction.raw("set local lock_timeout = '5s'");
      await requireEmpty(transaction);
      const store = async (token: string | undefined): Promise<Restored> => {
        const stored = await storeLines(openLines(backup(), recoveryKey), checked, transaction, token);
        const upgraded = await migrateTo(transaction, newestMigration());
        if (running !== undefined) await grantPrivileges(transaction, running);
        return { ...stored, signed_by: checked.signedBy, upgraded };
      };
      if (!config.token.managed) return store(undefined);
      const restored = await makeToken(config.token.dir, store);
      isMoved = true;
      return restored;
    }),
  );
  try {
    return await restoring;
  } catch (error) {
    if (isMoved && isRolledBack(error)) await rm(config.token.dir, { recursive: true, force: true });
    throw error;
  }
}

/** Returns whether the commit certainly failed. If the connection was lost instead, the result is unknown. */
function isRolledBack(error: unknown): boolean {
  return /^(?!08|57)[0-9A-Z]{5}$/.test((error as { code?: string }).code ?? "");
}

/** Creates the token's folder with the contents that `fill` writes. If `fill` fails, creates nothing. */
async function makeToken<T>(folder: string, fill: (aside: string) => Promise<T>): Promise<T> {
  try {
    return await makeFolderDurably(folder, fill);
  } catch (error) {
    const { path, code = "" } = error as NodeJS.ErrnoException;
    if (path?.startsWith(folder) && TAKEN_AWAY.has(code)) {
      throw new UserError(`Another program writes to ${folder} at the same time: stop it, then restore`);
    }
    throw error;
  }
}

async function requireEmpty(transaction: Knex.Transaction): Promise<void> {
  for (const { table } of BACKUP_TABLES) {
    if (!(await transaction.schema.hasTable(table))) continue;
    await transaction.raw("lock table ?? in access exclusive mode", [table]);
    const row: unknown = await transaction(table).first(transaction.raw("1"));
    if (row !== undefined) {
      throw new UserError("The database holds a vault already: restore into an empty one");
    }
  }
}

/**
 * Creates in an empty database exactly the tables that these migrations define, to match the backup's rows.
 */
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
  token: string | undefined,
): Promise<Omit<Restored, "upgraded" | "signed_by">> {
  const digest = createHash("sha256");
  const counts: Record<string, number> = {};
  let manifest: Manifest | undefined;
  let end: EndLine | undefined;
  for await (const text of lines) {
    const line = readLine(text);
    if ((line.kind === "manifest") !== (manifest === undefined)) throw incompleteBackup();
    if (line.kind === "signature") continue;
    digest.update(text);
    if (line.kind === "manifest") {
      manifest = line;
      await prepare(transaction, line, token);
    } else if (line.kind === "rows") {
      await insertRows(transaction, line);
      counts[line.table] = (counts[line.table] ?? 0) + line.rows.length;
    } else {
      end = line;
    }
  }
  if (manifest === undefined || end === undefined) throw incompleteBackup();
  if (!digest.digest().equals(checked.digest)) {
    throw new UserError(
      "The backup was altered while it was read: restore it again from a file that nothing else writes to",
    );
  }
  requireCounts(end, counts);
  return { created_at: manifest.created_at, head: manifest.head, counts: end.counts };
}

async function prepare(
  transaction: Knex.Transaction,
  manifest: Manifest,
  token: string | undefined,
): Promise<void> {
  requireFitting(manifest, token !== undefined);
  await makeTables(transaction, manifest.migrations);
  if (token !== undefined) await writeToken(token, manifest.token);
}

function requireCounts(end: EndLine, counts: Readonly<Record<string, number>>): void {
  if (Object.keys(end.counts).some((table) => !isKnown(table))) throw unknownTable();
  for (const [table, count] of Object.entries(end.counts)) {
    if ((counts[table] ?? 0) !== count) {
      throw new UserError(`The backup lacks rows of ${table}: use another copy of the backup`);
    }
  }
}

function isKnown(table: string): boolean {
  return table === RESIDENTS || BACKUP_TABLES.some(({ table: name }) => name === table);
}

const unknownTable = (): UserError =>
  new UserError(
    "The backup has a table that this version does not know: restore it with the version that made it",
  );

function requireFitting(manifest: Manifest, managed: boolean): void {
  requireKnownTables(manifest);
  const hasToken = Object.keys(manifest.token).length > 0;
  if (hasToken && !managed) {
    throw new UserError(
      "The backup holds a SoftHSM token, and KEYVAULT_PKCS11_MODULE names another module: set it to SoftHSM's",
    );
  }
  if (managed && !hasToken) {
    throw new UserError("The backup holds no token: set KEYVAULT_PKCS11_MODULE to the module that has it");
  }
}

async function insertRows(transaction: Knex.Transaction, { table, rows }: RowsLine): Promise<void> {
  if (!isKnown(table)) throw unknownTable();
  if (table === RESIDENTS && rows.length > 0) {
    throw new UserError(
      "The backup has keys that live in the token, which this version does not support: restore it with the version that made it",
    );
  }
  try {
    await transaction.raw("insert into ?? select * from jsonb_populate_recordset(null::??, ?::jsonb)", [
      table,
      table,
      JSON.stringify(rows),
    ]);
  } catch (error) {
    const { code = "" } = error as { code?: string };
    if (!UNFIT.test(code)) throw error;
    throw new UserError(`The backup has rows of ${table} that no vault writes (${code}): use another backup`);
  }
}

/** Throws `UserError` if a file is outside this folder or conflicts with another one. */
async function writeToken(folder: string, files: Record<string, string>): Promise<void> {
  const names = Object.keys(files);
  const parts = names.map((name) => name.split("/"));
  if (parts.some((path) => path.some((part) => part === "..") || path[0] === "")) {
    throw new UserError("The backup has a file outside the token's folder: use another backup");
  }
  const folders = new Set(parts.flatMap((path) => path.map((_, end) => path.slice(0, end).join("/"))));
  const isFile = (name: string) => !name.includes("\0") && !folders.has(name);
  if (!names.every(isFile) || parts.flat().some((part) => part === "" || part === ".")) {
    throw new UserError("The backup has a file of the token that cannot be written: use another backup");
  }
  // Creates outer folders before inner ones, but never `folder` itself. If another process removes `folder`
  // meanwhile, the restore fails and writes nothing more.
  for (const name of [...folders].filter((name) => name !== "").sort()) {
    await mkdir(join(folder, name), { mode: 0o700 });
  }
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), Buffer.from(content, "base64"), { mode: 0o600 });
  }
}

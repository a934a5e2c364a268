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
  type Manifest,
  notWhole,
  openLines,
  type RowsLine,
  readLine,
} from "./format.ts";

/** SQLSTATEs of a value that does not fit its column or breaks a constraint. */
const UNFIT = /^2[23][0-9A-Z]{3}$/;

/** What the file system says when another process removes a folder, or fills it. */
const TAKEN_AWAY = new Set(["ENOENT", "ENOTEMPTY", "EEXIST"]);

/** Earlier versions kept keys in the token too. Their backups count the rows of this table. */
const RESIDENTS = "residents";

/**
 * What was restored. `head` is the audit chain's last record at the time of the backup; `upgraded` names the
 * migrations that the rows went through, none for a backup with the newest tables; `signed_by` is the service
 * key's id, null for a backup that is not signed.
 */
export type Restored = {
  created_at: string;
  signed_by: string | null;
  head: Manifest["head"];
  counts: Record<string, number>;
  upgraded: string[];
};

/**
 * Puts a backup of this origin back on a machine that has no vault: an empty database, no token. It is read
 * to its end, and its signature checked, before anything is written, and read once more to be stored. One
 * transaction makes the tables that the backup's rows fit, stores these and brings them to the newest schema,
 * as an upgrade in place does; the token is moved into place when it is whole. So a restore that fails leaves
 * nothing, but for one whose connection ends at the commit: the token is there then, and the rows may be.
 *
 * Throws `UserError` when there is something already, or the backup is of another origin, altered, damaged,
 * cut off, of a newer version or for another key
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
      await transaction.raw("set LOCAL lock_timeout = '5s'");
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

/** Whether a commit failed for sure. When the connection ended instead, nobody knows. */
function isRolledBack(error: unknown): boolean {
  return /^(?!08|57)[0-9A-Z]{5}$/.test((error as { code?: string }).code ?? "");
}

/** Fills a token's folder, which is there when all is well and not before. */
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
  token: string | undefined,
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
      manifest = line;
      await prepare(transaction, line, token);
    } else if (line.kind === "rows") {
      await insertRows(transaction, line);
      counts[line.table] = (counts[line.table] ?? 0) + line.rows.length;
    } else {
      end = line;
    }
  }
  if (manifest === undefined || end === undefined) throw notWhole();
  if (!digest.digest().equals(checked.digest)) {
    throw new UserError(
      "The backup was altered while it was read: restore it again from a file that nothing else writes to",
    );
  }
  requireCounts(end, counts);
  return { created_at: manifest.created_at, head: manifest.head, counts: end.counts };
}

/** Makes what the rows go into, and the token. */
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
    if ((counts[table] ?? 0) !== count) throw new UserError(`The backup lacks rows of ${table}`);
  }
}

function isKnown(table: string): boolean {
  return table === RESIDENTS || BACKUP_TABLES.some(({ table: name }) => name === table);
}

const unknownTable = (): UserError => new UserError("The backup has a table that is unknown here");

function requireFitting(manifest: Manifest, managed: boolean): void {
  requireKnownTables(manifest);
  const hasToken = Object.keys(manifest.token).length > 0;
  if (hasToken && !managed) {
    throw new UserError("The backup holds a SoftHSM token, and KEYVAULT_PKCS11_MODULE names another module");
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
    throw new UserError(`The backup has rows of ${table} that no vault writes (${code})`);
  }
}

/** Throws `UserError` when a file is not of this folder, or cannot be there beside the others */
async function writeToken(folder: string, files: Record<string, string>): Promise<void> {
  const names = Object.keys(files);
  const parts = names.map((name) => name.split("/"));
  if (parts.some((path) => path.some((part) => part === "..") || path[0] === "")) {
    throw new UserError("The backup has a file outside the token's folder");
  }
  const folders = new Set(parts.flatMap((path) => path.map((_, end) => path.slice(0, end).join("/"))));
  const isFile = (name: string) => !name.includes("\0") && !folders.has(name);
  if (!names.every(isFile) || parts.flat().some((part) => part === "" || part === ".")) {
    throw new UserError("The backup has a file of the token that cannot be written");
  }
  // From the outside in, and not `folder` itself: when somebody takes it away meanwhile, nothing more is
  // written.
  for (const name of [...folders].filter((name) => name !== "").sort()) {
    await mkdir(join(folder, name), { mode: 0o700 });
  }
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), Buffer.from(content, "base64"), { mode: 0o600 });
  }
}

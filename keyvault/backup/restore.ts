import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, normalize, sep } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type pg from "pg";
import type { Config } from "../config.ts";
import { createClient } from "../db/connection.ts";
import { migrate, migrationNames } from "../db/migrate.ts";
import { makePrivateFolder, moveFolderDurably } from "../files.ts";
import type { Logger } from "../log.ts";
import { Problem } from "../problem.ts";
import { BACKUP_TABLES, type EndLine, type Manifest, type RowsLine } from "./contents.ts";
import { openStream } from "./sealed_stream.ts";

/** What was restored. `head` is the audit chain's last record at the time of the backup. */
export type Restored = { created_at: string; head: Manifest["head"]; counts: Record<string, number> };

/**
 * Puts a backup back on a machine that has no vault: an empty database, no token. Rows are stored in one transaction, and the token is
 * moved into place when it is whole, so a restore that fails, for whatever reason, leaves nothing.
 *
 * @throws Problem when there is something already, or the backup is damaged, cut off, of another version or for another key
 */
export async function restoreBackup(
  config: Config,
  backup: AsyncIterable<Buffer>,
  recoveryKey: string,
  log: Logger,
): Promise<Restored> {
  if (config.token.managed && existsSync(config.token.dir))
    throw new Problem(`There is a token in ${config.token.dir}: restore where no vault is`);
  await makePrivateFolder(config.dataDir);
  await migrate(config.databaseUrl, log);
  const client = createClient(config.databaseUrl);
  const aside = `${config.token.dir}.unfinished`;
  try {
    await client.connect();
    await client.query("BEGIN");
    await requireEmpty(client);
    const lines = createInterface({
      input: Readable.from(openStream(backup, recoveryKey), { objectMode: false }),
    });
    const restored = await readLines(lines, client, { aside, managed: config.token.managed });
    if (config.token.managed) await moveFolderDurably(aside, config.token.dir);
    await client.query("COMMIT");
    return restored;
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    throw error;
  } finally {
    await client.end().catch(() => {});
  }
}

async function requireEmpty(client: pg.Client): Promise<void> {
  for (const [table] of BACKUP_TABLES) {
    const { rowCount } = await client.query(`SELECT FROM ${table} LIMIT 1`);
    if (rowCount !== 0) throw new Problem("The database holds a vault already: restore into an empty one");
  }
}

async function readLines(
  lines: AsyncIterable<string>,
  client: pg.Client,
  token: { aside: string; managed: boolean },
): Promise<Restored> {
  const counts: Record<string, number> = {};
  let manifest: Manifest | undefined;
  let end: EndLine | undefined;
  for await (const text of lines) {
    const line = JSON.parse(text) as Manifest | RowsLine | EndLine;
    if (line.kind === "manifest") {
      manifest = requireFitting(line, token.managed);
      await writeToken(token.aside, line.token);
    } else if (line.kind === "rows") {
      await insertRows(client, line);
      counts[line.table] = (counts[line.table] ?? 0) + line.rows.length;
    } else end = line;
  }
  if (manifest === undefined || end === undefined) throw new Problem("The backup is not whole");
  for (const [table, count] of Object.entries(end.counts))
    if ((counts[table] ?? 0) !== count) throw new Problem(`The backup lacks rows of ${table}`);
  return { created_at: manifest.created_at, head: manifest.head, counts: end.counts };
}

function requireFitting(manifest: Manifest, managed: boolean): Manifest {
  const own = migrationNames();
  if (manifest.version !== 1 || manifest.migrations.join() !== own.join())
    throw new Problem(
      `The backup has the tables of another version (${manifest.migrations.at(-1)}, here ${own.at(-1)}): restore it with the version that made it`,
    );
  const hasToken = Object.keys(manifest.token).length > 0;
  if (hasToken && !managed)
    throw new Problem("The backup holds a SoftHSM token, and KEYVAULT_PKCS11_MODULE names another module");
  if (managed && !hasToken)
    throw new Problem("The backup holds no token: name the module that has it by KEYVAULT_PKCS11_MODULE");
  return manifest;
}

async function insertRows(client: pg.Client, { table, rows }: RowsLine): Promise<void> {
  const known = BACKUP_TABLES.find(([name]) => name === table);
  if (known === undefined) throw new Problem("The backup has a table that is unknown here");
  await client.query(
    `INSERT INTO ${known[0]} SELECT * FROM jsonb_populate_recordset(NULL::${known[0]}, $1)`,
    [JSON.stringify(rows)],
  );
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

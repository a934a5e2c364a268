import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import type pg from "pg";
import { z } from "zod";

/**
 * Tables in the order in which they can be filled again, each with the column its rows are read by and how
 * many rows a line holds.
 */
export const BACKUP_TABLES = [
  { table: "tenants", column: "tenant", page: 500 },
  { table: "keys", column: "key_id", page: 500 },
  { table: "listed_certificates", column: "key_id", page: 1 },
  { table: "audit", column: "seq", page: 500 },
] as const;

/** Format of backups that end with a signature, and of those of earlier versions. */
export const SIGNED_VERSION = 2;
export const UNSIGNED_VERSION = 1;

const manifest = z.object({
  kind: z.literal("manifest"),
  version: z.literal([SIGNED_VERSION, UNSIGNED_VERSION]),
  created_at: z.iso.datetime(),
  migrations: z.array(z.string().regex(/^[a-z0-9_]{1,63}$/)),
  head: z.object({ seq: z.int().nonnegative(), mac: z.hex().length(64) }),
  token: z.record(z.string(), z.base64()),
});
const rows = z.object({
  kind: z.literal("rows"),
  table: z.string(),
  rows: z.array(z.record(z.string(), z.unknown())),
});
const end = z.object({ kind: z.literal("end"), counts: z.record(z.string(), z.int().nonnegative()) });

/**
 * First line of a backup. `migrations` says which schema the rows fit; `head` is the audit chain's last
 * record; `token` holds the files of a SoftHSM token by their path in its folder, base64, and is absent for a
 * token that is backed up by its own means.
 */
export type Manifest = z.infer<typeof manifest>;

/**
 * The lines that follow: some rows of one table, in the database's own JSON, and behind all rows how many
 * there were.
 */
export type RowsLine = z.infer<typeof rows>;
export type EndLine = z.infer<typeof end>;

/** What each of these lines must look like. */
export const contentLines = [manifest, rows, end] as const;

/**
 * Lines of a backup before its signature, of what `client`'s open transaction sees. It must be a snapshot; it
 * is ended with the last line, or on the way out.
 */
export async function* backupLines(client: pg.Client, manifest: Manifest): AsyncGenerator<string> {
  try {
    yield line(manifest);
    const counts: Record<string, number> = {};
    for (const { table, column, page } of BACKUP_TABLES) {
      counts[table] = 0;
      for await (const rows of pages(client, table, column, page)) {
        counts[table] += rows.length;
        yield line({ kind: "rows", table, rows });
      }
    }
    yield line({ kind: "end", counts });
  } finally {
    await client.end().catch(() => {});
  }
}

/** A token folder's files. */
export async function readTokenFiles(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const contents = files.map(
    async (file) => [relative(folder, file), await readFile(file, "base64")] as const,
  );
  return Object.fromEntries(await Promise.all(contents));
}

async function* pages(
  client: pg.Client,
  table: string,
  column: string,
  page: number,
): AsyncGenerator<RowsLine["rows"]> {
  await client.query(
    `declare backup_${table} no scroll cursor for select to_jsonb(t) as row from ${table} t order by ${column}`,
  );
  for (;;) {
    const { rows } = await client.query<{ row: Record<string, unknown> }>(
      `fetch ${page} from backup_${table}`,
    );
    if (rows.length === 0) break;
    yield rows.map(({ row }) => row);
  }
}

function line(content: Manifest | RowsLine | EndLine): string {
  return `${JSON.stringify(content)}\n`;
}

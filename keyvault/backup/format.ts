import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import type pg from "pg";
import { z } from "zod";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { isIdOf, verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { UserError } from "../errors.ts";
import { decryptStream } from "./encrypted_stream.ts";

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
const contentLines = [manifest, rows, end] as const;

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

const hybrid = z.strictObject({ ed25519: z.string(), ml_dsa_65: z.string() });
const statement = z.strictObject({
  type: z.literal("backup"),
  version: z.literal(1),
  created_at: z.string(),
  head: z.strictObject({ seq: z.int(), mac: z.string() }),
  digest: z.string(),
  signed_by: z.string(),
});
/** What the last line of a backup must look like. */
const signatureLine = z.strictObject({
  kind: z.literal("signature"),
  statement,
  public_key: hybrid,
  signature: hybrid,
});

/**
 * The vault's word that it wrote a backup. `digest` is SHA-256 of all lines before the signature's, base64;
 * `created_at` and `head` are those of the manifest; `signed_by` is the service key's id.
 */
type BackupStatement = z.infer<typeof statement>;

/** Last line of a backup. */
export type SignatureLine = z.infer<typeof signatureLine>;

const NEWLINE = 0x0a;

/** A backup that may be read from its beginning as often as it takes. */
export type BackupSource = () => AsyncIterable<Buffer>;

const backupLine = z.discriminatedUnion("kind", [...contentLines, signatureLine]);

/** One line of any kind, of which every member has its shape. */
type BackupLine = z.infer<typeof backupLine>;

/**
 * Lines of an encrypted backup, each with its newline. Throws a `UserError` as {@link decryptStream} does,
 * and when the last one does not end.
 */
export async function* openLines(
  bytes: AsyncIterable<Buffer>,
  recoveryKey: string,
): AsyncGenerator<Buffer, void> {
  let begun: Buffer[] = [];
  for await (const piece of decryptStream(bytes, recoveryKey)) {
    let from = 0;
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, from)) {
      yield Buffer.concat([...begun, piece.subarray(from, at + 1)]);
      begun = [];
      from = at + 1;
    }
    if (from < piece.length) begun.push(piece.subarray(from));
  }
  if (begun.length > 0) throw notWhole();
}

/** What a line says, whatever that is. Throws a `UserError` when it is not JSON. */
export function parseLine(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString());
  } catch {
    throw notWhole();
  }
}

/** What a line says. Throws a `UserError` when a backup has no such line. */
export function readLine(line: Buffer): BackupLine {
  const read = backupLine.safeParse(parseLine(line));
  if (!read.success) throw notWhole();
  return read.data;
}

/** Says that lines are missing, are not where they belong, or do not belong in a backup. */
export const notWhole = (): UserError => new UserError("The backup is incomplete or out of order");

/** The bytes that the service key signs: canonical JSON of the whole statement. */
export function backupSignBytes({
  type,
  version,
  created_at,
  head: { seq, mac },
  digest,
  signed_by,
}: BackupStatement): Uint8Array {
  return canonicalBytes({ type, version, created_at, head: { seq, mac }, digest, signed_by });
}

/**
 * These lines, and behind them the one that `sign` makes of their SHA-256. When it rejects, so does the
 * iteration.
 */
export async function* signLines(
  lines: AsyncIterable<string>,
  sign: (digest: Buffer) => Promise<SignatureLine>,
): AsyncGenerator<string> {
  const digest = createHash("sha256");
  for await (const line of lines) {
    digest.update(line);
    yield line;
  }
  yield `${JSON.stringify(await sign(digest.digest()))}\n`;
}

/** Id of the service key that signed for exactly this manifest and digest, or undefined when none did. */
export async function signerOf(
  line: unknown,
  manifest: Pick<Manifest, "created_at" | "head">,
  digest: Buffer,
): Promise<string | undefined> {
  const read = signatureLine.safeParse(line);
  if (!read.success) return undefined;
  const { statement: said, public_key, signature } = read.data;
  const fits =
    said.digest === digest.toString("base64") &&
    said.created_at === manifest.created_at &&
    said.head.seq === manifest.head.seq &&
    said.head.mac === manifest.head.mac &&
    isIdOf(said.signed_by, public_key);
  if (!fits) return undefined;
  try {
    return (await verifyHybrid(public_key, backupSignBytes(said), signature)) ? said.signed_by : undefined;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

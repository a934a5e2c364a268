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
 * Tables in an order that satisfies foreign keys, the column that sorts their rows, and the rows per line.
 */
export const BACKUP_TABLES = [
  { table: "tenants", column: "tenant", page: 500 },
  { table: "keys", column: "key_id", page: 500 },
  { table: "listed_certificates", column: "key_id", page: 1 },
  { table: "audit", column: "seq", page: 500 },
] as const;

/** Format version of backups that end with a signature. */
export const SIGNED_VERSION = 2;
/** Format version of unsigned backups, which earlier versions wrote. */
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
 * First line of a backup. `migrations` names the schema of the rows. `head` is the audit chain's last record.
 * `token` contains a SoftHSM token's files by path, base64. It is empty for other tokens.
 */
export type Manifest = z.infer<typeof manifest>;

/** Some rows of one table, in the database's own JSON. */
export type RowsLine = z.infer<typeof rows>;
/** Line after all rows, with the number of rows of each table. */
export type EndLine = z.infer<typeof end>;

const contentLines = [manifest, rows, end] as const;

/**
 * Yields all lines of a backup except the last one, its signature. Reads the rows in the open transaction of
 * `client`, which must be a snapshot. Closes the connection at the end of the iteration, even if it ends
 * early.
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

/** Reads the files of a token's folder. */
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
const signatureLine = z.strictObject({
  kind: z.literal("signature"),
  statement,
  public_key: hybrid,
  signature: hybrid,
});

/**
 * The vault's statement that it wrote a backup. `digest` is SHA-256 of all lines before the signature line,
 * base64. `created_at` and `head` are those of the manifest. `signed_by` is the id of the service key.
 */
type BackupStatement = z.infer<typeof statement>;

/** Last line of a backup. */
export type SignatureLine = z.infer<typeof signatureLine>;

const NEWLINE = 0x0a;

/** A function that returns the backup's bytes from the beginning. It may be called any number of times. */
export type BackupSource = () => AsyncIterable<Buffer>;

const backupLine = z.discriminatedUnion("kind", [...contentLines, signatureLine]);

type BackupLine = z.infer<typeof backupLine>;

/**
 * Yields the lines of an encrypted backup, each with its newline. Throws a `UserError` like
 * {@link decryptStream}, or if the last line has no newline.
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
  if (begun.length > 0) throw incompleteBackup();
}

/** Parses a line. Throws a `UserError` if it is not JSON. */
export function parseLine(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString());
  } catch {
    throw incompleteBackup();
  }
}

/** Parses a line. Throws a `UserError` if no backup contains such a line. */
export function readLine(line: Buffer): BackupLine {
  const read = backupLine.safeParse(parseLine(line));
  if (!read.success) throw incompleteBackup();
  return read.data;
}

/** Returns the error for lines that are missing, out of order, or not part of a backup. */
export const incompleteBackup = (): UserError =>
  new UserError("The backup is incomplete or out of order: use another copy of the backup");

/** Returns the bytes that the service key signs: canonical JSON of the whole statement about a backup. */
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
 * Yields the lines of a backup, then the line that `sign` creates from their SHA-256. Rejects if `sign` does.
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

/** Returns the id of the stored service key that signed exactly this manifest and digest, or `undefined`. */
export async function signerOf(
  line: unknown,
  manifest: Pick<Manifest, "created_at" | "head">,
  digest: Buffer,
): Promise<string | undefined> {
  const read = signatureLine.safeParse(line);
  if (!read.success) return undefined;
  const { statement: signed, public_key, signature } = read.data;
  const fits =
    signed.digest === digest.toString("base64") &&
    signed.created_at === manifest.created_at &&
    signed.head.seq === manifest.head.seq &&
    signed.head.mac === manifest.head.mac &&
    isIdOf(signed.signed_by, public_key);
  if (!fits) return undefined;
  try {
    return (await verifyHybrid(public_key, backupSignBytes(signed), signature))
      ? signed.signed_by
      : undefined;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

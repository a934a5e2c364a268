import { createHash, hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { type Month, parseMonth } from "../../db/months.ts";
import {
  type ArchivedFile,
  type ArchivedTable,
  archivedTables,
  columnsIn,
  HistoryError,
  MANIFEST,
  type Manifest,
  manifestHash,
  parseManifest,
} from "./form.ts";

/** The maximum length of a line in bytes, which is far more than any row needs. */
const LONGEST_LINE = 16 * 1024 * 1024;
const NEW_LINE = 0x0a;
/** Fields that a receipt and its row both contain. */
const IN_BOTH = ["connection_id", "decision", "decision_reason"] as const;

/** The result of reading a complete archive. */
export type CheckedArchive = { month: Month; manifest: Manifest; hash: Buffer; receipts: number };

/**
 * Checks an archive by its own files alone.
 *
 * - Its files have exactly the bytes that the manifest says.
 * - The files have the stated number of rows, each once, within the month, and with the stated first and last
 *   times.
 * - Every decision has its receipt and the receipt's hash, and both contain the same data.
 *
 * Throws `HistoryError` with the file and line of the first mismatch.
 */
export async function checkArchive(folder: string): Promise<CheckedArchive> {
  const text = await readFile(join(folder, MANIFEST), "utf8").catch((error) => {
    if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error;
    throw new HistoryError(
      `${folder} has no ${MANIFEST}: it is not an archive, or the archive was not finished`,
    );
  });
  const manifest = parseManifest(text);
  const month = parseMonth(manifest?.month ?? "");
  if (manifest === undefined || month === undefined) {
    throw new HistoryError(`${MANIFEST} has a format that this version cannot read`);
  }
  let receipts = 0;
  for (const [n, table] of archivedTables.entries()) {
    const file = manifest.files[n];
    if (file !== undefined) {
      const columns = columnsIn(manifest, table);
      receipts += await checkFile(join(folder, table.file), { file, table: { ...table, columns }, month });
    }
  }
  return { month, manifest, hash: manifestHash(text), receipts };
}

type Expected = { file: ArchivedFile; table: ArchivedTable; month: Month };

/** Decompresses the file only after its bytes matched the manifest. Returns the number of receipts in it. */
async function checkFile(path: string, { file, table, month }: Expected): Promise<number> {
  const { bytes, sha256 } = await readBytes(path, file);
  if (bytes !== file.bytes || sha256 !== file.sha256) {
    throw new HistoryError(`${file.name} is cut off or damaged: its size or hash differs from the manifest`);
  }
  const rows = createRowCheck(table, month);
  try {
    await pipeline(createReadStream(path), createGunzip(), async (content) => {
      for await (const line of linesOf(content)) rows.take(line);
    });
  } catch (error) {
    if (error instanceof HistoryError) throw new HistoryError(`${file.name}: ${error.message}`);
    if (!(error as NodeJS.ErrnoException).code?.startsWith("Z_")) throw error;
    throw new HistoryError(`${file.name} is not compressed by gzip`);
  }
  const { count, first, last, receipts } = rows.seen;
  if (count !== file.rows || first !== file.first || last !== file.last) {
    throw new HistoryError(
      `${file.name} has ${count} rows from ${first} to ${last}, but the manifest says ${file.rows} ` +
        `from ${file.first} to ${file.last}`,
    );
  }
  return receipts;
}

async function readBytes(path: string, { name }: ArchivedFile): Promise<{ bytes: number; sha256: string }> {
  const sha256 = createHash("sha256");
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
      sha256.update(chunk);
      bytes += chunk.length;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new HistoryError(`${name} is missing`);
  }
  return { bytes, sha256: sha256.digest("hex") };
}

/** Splits the content at newlines only, because a row's text may contain characters such as U+2028. */
async function* linesOf(content: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of content) {
    let whole = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (let end = whole.indexOf(NEW_LINE); end !== -1; end = whole.indexOf(NEW_LINE)) {
      yield whole.toString("utf8", 0, end);
      whole = whole.subarray(end + 1);
    }
    if (whole.length > LONGEST_LINE) throw new HistoryError(`a line is longer than ${LONGEST_LINE} bytes`);
    rest = whole;
  }
  if (rest.length > 0) throw new HistoryError("the last line has no newline");
}

type Row = Record<string, unknown>;

function createRowCheck(table: ArchivedTable, month: Month) {
  const seen = { count: 0, first: null as string | null, last: null as string | null, receipts: 0 };
  const names = table.columns.join();
  const hasReceipts = table.columns.includes("receipt");
  const isInMonth = createMomentCheck(month);
  let former = "";
  return {
    seen,
    take(line: string): void {
      seen.count += 1;
      const wrong = (what: string) => new HistoryError(`line ${seen.count}: ${what}`);
      const row = parseRow(line);
      if (row === undefined || Object.keys(row).join() !== names) throw wrong("is not a row of this table");
      const place = table.key.map((column) => row[column]).join(" ");
      if (place <= former) throw wrong("occurs twice or is out of order");
      former = place;
      const moment = String(row[table.column]);
      if (!isInMonth(moment)) throw wrong("belongs to another month");
      if (seen.first === null || moment < seen.first) seen.first = moment;
      if (seen.last === null || moment > seen.last) seen.last = moment;
      if (hasReceipts) seen.receipts += checkReceipt(row, wrong);
    },
  };
}

/** Compares times as strings, which works because all are in UTC and in the same format. */
function createMomentCheck(month: Month): (moment: string) => boolean {
  const [from = "", to = ""] = [month.from, month.to].map((time) => time.toISOString().slice(0, 10));
  return (moment) => moment.endsWith("+00:00") && moment >= from && moment < to;
}

function parseRow(line: string): Row | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === "object" && parsed !== null ? (parsed as Row) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Checks the receipt of a decision, and returns the number of receipts: 1 or 0. An account's history contains
 * no receipt for a decision that a different account's platform made about this account's authority.
 */
function checkReceipt(row: Row, wrong: (what: string) => Error): number {
  if (typeof row.verifier_account_id === "string" && row.receipt === null) return 0;
  const text = row.receipt;
  if (typeof text !== "string") throw wrong("is a decision without a receipt");
  if (`\\x${hash("sha256", text, "hex")}` !== row.receipt_hash) {
    throw wrong("its receipt does not match its hash");
  }
  const receipt = parseRow(text);
  if (receipt?.receipt_id !== row.event_id || IN_BOTH.some((name) => receipt?.[name] !== row[name])) {
    throw wrong("its receipt belongs to another decision");
  }
  return 1;
}

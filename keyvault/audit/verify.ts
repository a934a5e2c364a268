import type { Database } from "../db/database.ts";
import type { AuditRow } from "../db/rows.ts";
import type { Token } from "../token/client.ts";
import type { Head } from "./ledger.ts";
import { GENESIS, storedBytes } from "./record.ts";

/** What verification found: the whole chain holds, or the first record at which it does not. */
export type ChainVerdict = { intact: true; head: Head } | ChainBreak;

/** A chain that does not hold from record `seq` on. */
export type ChainBreak = { intact: false; seq: number; reason: "altered" | "missing" | "cut" };

/** Some records of the chain in their order. Without a `fault` the codes of all of them hold. */
export type ChainPage = { records: readonly AuditRow[]; fault: ChainBreak | undefined };

/** Reads up to `limit` records after a number, in their order. */
export type ReadRecords = (after: number, limit: number) => PromiseLike<readonly AuditRow[]>;

const PAGE = 500;

/**
 * Walks the chain behind `from` to its end, page by page, and recomputes every code with the token's audit
 * key. A page with a fault is the last one.
 */
export async function* walkChain(
  read: ReadRecords,
  token: Pick<Token, "chain">,
  from: Head,
): AsyncGenerator<ChainPage> {
  let head = from;
  let reading = begin(read, head.seq);
  for (;;) {
    const records = await reading;
    const last = records.at(-1);
    if (last === undefined) return;
    reading = begin(read, last.seq);
    const codes = await token.chain(head.mac, readable(records));
    const fault = firstBreak(records, codes, head.seq + 1);
    yield { records, fault };
    if (fault !== undefined) return;
    head = last;
  }
}

/** Reads a page while the one before is verified; its failure is met when it is waited for. */
function begin(read: ReadRecords, after: number): Promise<readonly AuditRow[]> {
  const reading = Promise.resolve(read(after, PAGE));
  reading.catch(() => {});
  return reading;
}

/**
 * Verifies the chain from its first record. The first record that was altered, taken out or put in is named.
 * A tail that was cut off shows only against a head noted before: pass those as `expected`.
 *
 * @param onRecords called with records that hold, in their order
 */
export async function verifyChain(
  database: Database,
  token: Token,
  expected: readonly Head[] = [],
  onRecords: (records: readonly AuditRow[]) => void = () => {},
): Promise<ChainVerdict> {
  let head: Head = { seq: 0, mac: GENESIS };
  const noted = Map.groupBy(expected, ({ seq }) => seq);
  const atStart = headBreak([head], noted);
  if (atStart !== undefined) return atStart;
  const newest = expected.reduce((most, { seq }) => Math.max(most, seq), 0);
  for await (const { records, fault } of walkChain(readFrom(database), token, head)) {
    const found = fault ?? headBreak(records, noted);
    if (found !== undefined) return found;
    head = records.at(-1) ?? head;
    onRecords(records);
  }
  if (head.seq < newest) return { intact: false, seq: head.seq + 1, reason: "cut" };
  return { intact: true, head: { seq: head.seq, mac: head.mac } };
}

/** Reads the records of a database. */
export function readFrom(database: Database): ReadRecords {
  return (after, limit) =>
    database<AuditRow>("audit").where("seq", ">", after).orderBy("seq").limit(limit).then();
}

/** The texts of a page's records up to the first that has none. */
function readable(page: readonly AuditRow[]): Uint8Array[] {
  const texts: Uint8Array[] = [];
  for (const row of page) {
    const text = storedBytes(row);
    if (text === undefined) break;
    texts.push(text);
  }
  return texts;
}

function firstBreak(
  page: readonly AuditRow[],
  macs: readonly Uint8Array[],
  firstSeq: number,
): ChainBreak | undefined {
  for (const [index, row] of page.entries()) {
    const seq = firstSeq + index;
    if (row.seq !== seq) return { intact: false, seq, reason: "missing" };
    const expected = macs[index];
    if (expected === undefined || !row.mac.equals(expected)) return { intact: false, seq, reason: "altered" };
  }
  return undefined;
}

function headBreak(
  page: readonly Head[],
  noted: ReadonlyMap<number, readonly Head[]>,
): ChainBreak | undefined {
  const row = page.find(({ seq, mac }) => noted.get(seq)?.some((head) => !head.mac.equals(mac)));
  return row && { intact: false, seq: row.seq, reason: "altered" };
}

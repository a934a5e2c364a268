import type { Database } from "../db/connection.ts";
import type { AuditRow } from "../db/rows.ts";
import type { Token } from "../token/client.ts";
import type { Head } from "./ledger.ts";
import { GENESIS, storedBytes } from "./record.ts";

/** What verification found: the whole chain holds, or the first record at which it does not. */
export type ChainVerdict = { intact: true; head: Head } | ChainFault;

/** A chain that does not hold from record `seq` on. */
export type ChainFault = { intact: false; seq: number; reason: "altered" | "missing" | "cut" };

const PAGE = 500;

/**
 * Walks the chain from its first record and recomputes every code with the token's audit key. The first record that was altered, taken out
 * or put in is named. A tail that was cut off shows only against a head noted before: pass those as `expected`.
 *
 * @param onProgress called with the number of records that hold so far
 */
export async function verifyChain(
  database: Database,
  token: Token,
  expected: readonly Head[] = [],
  onProgress: (records: number) => void = () => {},
): Promise<ChainVerdict> {
  let head: Head = { seq: 0, mac: GENESIS };
  const noted = Map.groupBy(expected, ({ seq }) => seq);
  const newest = expected.reduce((most, { seq }) => Math.max(most, seq), 0);
  for (;;) {
    const page = await database<AuditRow>("audit").where("seq", ">", head.seq).orderBy("seq").limit(PAGE);
    if (page.length === 0) break;
    const macs = await token.chain(head.mac, readable(page));
    const fault = firstFault(page, macs, head.seq + 1) ?? headFault(page, noted);
    if (fault !== undefined) return fault;
    head = page.at(-1) ?? head;
    onProgress(head.seq);
  }
  if (head.seq < newest) return { intact: false, seq: head.seq + 1, reason: "cut" };
  return { intact: true, head: { seq: head.seq, mac: head.mac } };
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

function firstFault(
  page: readonly AuditRow[],
  macs: readonly Uint8Array[],
  firstSeq: number,
): ChainFault | undefined {
  for (const [index, row] of page.entries()) {
    const seq = firstSeq + index;
    if (row.seq !== seq) return { intact: false, seq, reason: "missing" };
    const expected = macs[index];
    if (expected === undefined || !row.mac.equals(expected)) return { intact: false, seq, reason: "altered" };
  }
  return undefined;
}

function headFault(
  page: readonly AuditRow[],
  noted: ReadonlyMap<number, readonly Head[]>,
): ChainFault | undefined {
  const row = page.find(({ seq, mac }) => noted.get(seq)?.some((head) => !head.mac.equals(mac)));
  return row && { intact: false, seq: row.seq, reason: "altered" };
}

import type pg from "pg";
import type { Database } from "../db/database.ts";
import type { AuditRow } from "../db/rows.ts";
import type { Token } from "../token/client.ts";
import type { Register } from "./last_states.ts";
import { GENESIS, storedBytes } from "./record.ts";
import { type Head, LedgerMismatch } from "./writer_connection.ts";

/** Result of a verification: a valid chain with its head, or the first record that breaks the chain. */
export type ChainVerdict = { intact: true; head: Head } | ChainBreak;

/** A chain that is broken from record `seq` on. */
export type ChainBreak = { intact: false; seq: number; reason: "altered" | "missing" | "cut" };

/** Consecutive records of the chain. If there is no `fault`, all their codes are valid. */
export type ChainPage = { records: readonly AuditRow[]; fault: ChainBreak | undefined };

/** Reads up to `limit` records after a number, in order. */
export type ReadRecords = (after: number, limit: number) => PromiseLike<readonly AuditRow[]>;

const PAGE = 500;

/**
 * Reads the chain from the record after `from` to its end, page by page. Recomputes every code with the
 * token's audit key. Stops after the first page with a fault.
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

/**
 * Starts to read a page while the previous page is verified. If the read fails, the error is thrown when the
 * page is awaited.
 */
function begin(read: ReadRecords, after: number): Promise<readonly AuditRow[]> {
  const reading = Promise.resolve(read(after, PAGE));
  reading.catch(() => {});
  return reading;
}

/**
 * Verifies the chain from its first record. Reports the first record that was altered, removed or inserted.
 * Only a head in `expected`, noted earlier, can reveal that the chain's end was cut off.
 * @param onRecords called with valid records, in order
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

/** Returns a function that reads records from a database. */
export function readFrom(database: Database): ReadRecords {
  return (after, limit) =>
    database<AuditRow>("audit").where("seq", ">", after).orderBy("seq").limit(limit).then();
}

/** Returns the canonical bytes of a page's records, up to the first record without a canonical form. */
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

/**
 * Verifies all records after the register's head and adds them to the register, even if another process wrote
 * them. `taken` contains the heads at which the snapshot's parts were saved. Throws `LedgerMismatch` if a
 * later record is not valid, or if the chain lacks the register's head, the head that the token has noted, or
 * one of `taken`.
 */
export async function catchUp(
  client: pg.Client,
  token: Pick<Token, "chain" | "notedHead">,
  register: Pick<Register, "head" | "apply">,
  taken: readonly Head[] = [],
): Promise<void> {
  const { head: noted } = await token.notedHead();
  const from = register.head();
  const read: ReadRecords = async (after, limit) => {
    const { rows } = await client.query<AuditRow>(
      "select * from audit where seq > $1 order by seq limit $2",
      [after, limit],
    );
    return rows;
  };
  await requireKnown(read, token, from);
  const expected = noted === null ? taken : [...taken, { seq: noted.seq, mac: Buffer.from(noted.mac) }];
  const codes = new Map(expected.map(({ seq, mac }) => [seq, mac]));
  requireExpected([from, ...expected], codes);
  for await (const { records, fault } of walkChain(read, token, from)) {
    if (fault !== undefined) throw mismatch(fault);
    requireExpected(records, codes);
    register.apply(records);
  }
  const { seq: end } = register.head();
  const newest = expected.reduce((most, { seq }) => Math.max(most, seq), 0);
  if (end < newest) {
    throw new LedgerMismatch(
      `The audit chain ends with record ${end}, and the token has noted ${newest}: records were cut off`,
    );
  }
}

/** Throws if a record has the number of an expected head but another code. */
function requireExpected(records: readonly Head[], codes: ReadonlyMap<number, Buffer>): void {
  const found = records.find(({ seq, mac }) => codes.get(seq)?.equals(mac) === false);
  if (found === undefined) return;
  throw new LedgerMismatch(
    `Audit record ${found.seq} is not the one that the token has noted: the database was set back and written on`,
  );
}

/** Throws unless the chain contains the head and the content of the head's record matches its code. */
async function requireKnown(
  read: ReadRecords,
  token: Pick<Token, "chain">,
  { seq, mac }: Head,
): Promise<void> {
  if (seq === 0) return;
  const records = await read(seq - 2, 2);
  const known = records.find((record) => record.seq === seq);
  if (known?.mac.equals(mac) !== true) {
    throw new LedgerMismatch(`Audit record ${seq}, written before, is gone: the database was set back`);
  }
  const before = seq === 1 ? GENESIS : records.find((record) => record.seq === seq - 1)?.mac;
  if (before === undefined) throw mismatch({ intact: false, seq: seq - 1, reason: "missing" });
  const text = storedBytes(known);
  const [code] = text === undefined ? [] : await token.chain(before, [text]);
  if (code === undefined || !mac.equals(code)) throw mismatch({ intact: false, seq, reason: "altered" });
}

function mismatch({ seq, reason }: ChainBreak): LedgerMismatch {
  return new LedgerMismatch(
    reason === "missing"
      ? `Audit record ${seq} is missing: the database was altered`
      : `Audit record ${seq} does not verify: it was altered, or this database belongs to another token`,
  );
}

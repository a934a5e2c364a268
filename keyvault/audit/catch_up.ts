import type pg from "pg";
import type { AuditRow } from "../db/rows.ts";
import type { Token } from "../token/client.ts";
import { type Head, LedgerMismatch } from "./ledger.ts";
import { GENESIS, storedBytes } from "./record.ts";
import type { Register } from "./register/register.ts";
import { type ChainBreak, type ReadRecords, walkChain } from "./verify.ts";

/**
 * Brings the register to the chain's end: whatever was written behind its head, by an earlier process or by
 * another one meanwhile, is verified and taken in. Throws `LedgerMismatch` when the head is not where it was,
 * a record behind it does not verify, or the chain does not lead to the head that the token has noted and to
 * each of `taken`, those at which the register's parts were taken.
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

/** Throws when one of the records has an expected one's number and another code. */
function requireExpected(records: readonly Head[], codes: ReadonlyMap<number, Buffer>): void {
  const found = records.find(({ seq, mac }) => codes.get(seq)?.equals(mac) === false);
  if (found === undefined) return;
  throw new LedgerMismatch(
    `Audit record ${found.seq} is not the one that the token has noted: the database was set back and written on`,
  );
}

/**
 * Throws unless the head is in the chain with its code, and its content is what the code was computed from.
 */
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

import type pg from "pg";
import type { AuditRow } from "../db/rows.ts";
import type { Token } from "../token/client.ts";
import type { NotedHead } from "../token/messages.ts";
import { type Head, LedgerMismatch } from "./ledger.ts";
import type { Register } from "./register.ts";
import { type ChainFault, type ReadRecords, walkChain } from "./verify.ts";

/**
 * Brings the register to the chain's end: whatever was written behind its head, by an earlier process or by another one meanwhile, is
 * verified and taken in. Throws `LedgerMismatch` when the head is not where it was, a record behind it does not verify, or the chain does
 * not lead to the head that the token has noted.
 */
export async function catchUp(
  client: pg.Client,
  token: Pick<Token, "chain" | "notedHead">,
  register: Pick<Register, "head" | "fold">,
): Promise<void> {
  const { head: noted } = await token.notedHead();
  const from = register.head();
  await requireKnown(client, register);
  if (noted !== null) requireNoted([from], noted);
  const read: ReadRecords = async (after, limit) => {
    const { rows } = await client.query<AuditRow>(
      "SELECT * FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2",
      [after, limit],
    );
    return rows;
  };
  for await (const { records, fault } of walkChain(read, token, from)) {
    if (fault !== undefined) throw mismatch(fault);
    if (noted !== null) requireNoted(records, noted);
    register.fold(records);
  }
  if (noted !== null && register.head().seq < noted.seq)
    throw new LedgerMismatch(
      `The audit chain ends with record ${register.head().seq}, and the token has noted ${noted.seq}: records were cut off`,
    );
}

/** Throws when one of the records has the noted one's number and another code. */
function requireNoted(records: readonly Head[], noted: NotedHead): void {
  const found = records.find(({ seq }) => seq === noted.seq);
  if (found !== undefined && !found.mac.equals(noted.mac))
    throw new LedgerMismatch(
      `Audit record ${noted.seq} is not the one that the token has noted: the database was set back and written on`,
    );
}

async function requireKnown(client: pg.Client, register: Pick<Register, "head">): Promise<void> {
  const { seq, mac } = register.head();
  if (seq === 0) return;
  const { rows } = await client.query<{ mac: Buffer }>("SELECT mac FROM audit WHERE seq = $1", [seq]);
  if (rows[0]?.mac.equals(mac) === true) return;
  throw new LedgerMismatch(`Audit record ${seq}, written before, is gone: the database was set back`);
}

function mismatch({ seq, reason }: ChainFault): LedgerMismatch {
  return new LedgerMismatch(
    reason === "missing"
      ? `Audit record ${seq} is missing: the database was altered`
      : `Audit record ${seq} does not verify: it was altered, or this database belongs to another token`,
  );
}

import type pg from "pg";
import { createClient } from "../db/connection.ts";
import type { AuditRow } from "../db/rows.ts";
import { Problem } from "../problem.ts";
import type { Token } from "../token/client.ts";
import { GENESIS, recordBytes } from "./record.ts";

/** The last record of the chain: its number (0 before the first) and its code. */
export type Head = { seq: number; mac: Buffer };

/** The chain is not what this vault wrote: its last record, or one this process knows, is not there or does not verify. */
export class LedgerMismatch extends Problem {
  override readonly name = "LedgerMismatch";
}

/** Another process holds the ledger. */
export class LedgerHeld extends Problem {
  override readonly name = "LedgerHeld";

  constructor() {
    super("Another vault process writes to this database");
  }
}

/** The one connection that may write, and the chain's head as the database has it. */
export type Ledger = { client: pg.Client; head: Head };

/** Held by the session of the one writer; its end, for whatever reason, frees it. */
const LEDGER_LOCK = 7_233_101;

/**
 * Connects as the only writer of this database and checks that the chain still ends as it should: the last record verifies under the
 * token's audit key, and the head that this process saw last, if any, is where it was.
 *
 * @throws LedgerHeld, LedgerMismatch, or the database's own error
 */
export async function openLedger(url: string, token: Token, known: Head | undefined): Promise<Ledger> {
  const client = createClient(url);
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("SET synchronous_commit = on");
    const { rows } = await client.query<{ held: boolean }>("SELECT pg_try_advisory_lock($1) AS held", [
      LEDGER_LOCK,
    ]);
    if (rows[0]?.held !== true) throw new LedgerHeld();
    const head = await readHead(client, token);
    await requireKnown(client, known);
    return { client, head };
  } catch (error) {
    closeLedger(client);
    throw error;
  }
}

/** Ends the connection without waiting for a server that may not answer. */
export function closeLedger(client: pg.Client): void {
  client.end().catch(() => {});
}

async function readHead(client: pg.Client, token: Token): Promise<Head> {
  const { rows } = await client.query<AuditRow>("SELECT * FROM audit ORDER BY seq DESC LIMIT 2");
  const [last, before] = rows;
  if (last === undefined) return { seq: 0, mac: GENESIS };
  const previous = before?.mac ?? GENESIS;
  const [expected = GENESIS] = await token.chain(previous, [recordBytes(last)]);
  if (!last.mac.equals(expected)) {
    throw new LedgerMismatch(
      `Audit record ${last.seq} does not verify: it was altered, or this database belongs to another token`,
    );
  }
  return { seq: last.seq, mac: last.mac };
}

async function requireKnown(client: pg.Client, known: Head | undefined): Promise<void> {
  if (known === undefined || known.seq === 0) return;
  const { rows } = await client.query<{ mac: Buffer }>("SELECT mac FROM audit WHERE seq = $1", [known.seq]);
  if (rows[0]?.mac.equals(known.mac) === true) return;
  throw new LedgerMismatch(`Audit record ${known.seq}, written before, is gone: the database was set back`);
}

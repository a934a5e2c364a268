import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { createClient } from "../db/connection.ts";
import type { AuditRow } from "../db/rows.ts";
import { Problem } from "../problem.ts";
import type { Token } from "../token/client.ts";
import { GENESIS, storedBytes } from "./record.ts";

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
const LOCK_WAIT_MS = 3_000;
const LOCK_NOT_AVAILABLE = "55P03";
const CLOSE_DEADLINE_MS = 1_000;

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
    await hold(client);
    const head = await readHead(client, token);
    await requireKnown(client, known);
    return { client, head };
  } catch (error) {
    void closeLedger(client);
    throw error;
  }
}

/** Ends the connection. Resolves, at the latest after a second, whether the server takes notice or not. */
export async function closeLedger(client: pg.Client): Promise<void> {
  const ended = client.end().catch(() => {});
  await Promise.race([ended, sleep(CLOSE_DEADLINE_MS, undefined, { ref: false })]);
}

/** Takes the lock, waiting a little for a writer whose connection is just ending. */
async function hold(client: pg.Client): Promise<void> {
  try {
    await client.query(`SET lock_timeout = '${LOCK_WAIT_MS}ms'`);
    await client.query("SELECT pg_advisory_lock($1)", [LEDGER_LOCK]);
    await client.query("SET lock_timeout = 0");
  } catch (error) {
    throw (error as { code?: string }).code === LOCK_NOT_AVAILABLE ? new LedgerHeld() : error;
  }
}

async function readHead(client: pg.Client, token: Token): Promise<Head> {
  const { rows } = await client.query<AuditRow>("SELECT * FROM audit ORDER BY seq DESC LIMIT 2");
  const [last, before] = rows;
  if (last === undefined) return { seq: 0, mac: GENESIS };
  const previous = before?.mac ?? GENESIS;
  const text = storedBytes(last);
  const [expected] = text === undefined ? [] : await token.chain(previous, [text]);
  if (expected === undefined || !last.mac.equals(expected)) {
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

import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { createClient } from "../db/database.ts";
import { UserError } from "../errors.ts";

/** The last record of the chain: its number (0 before the first) and its code. */
export type Head = { seq: number; mac: Buffer };

/**
 * The chain is not what this vault wrote: a record of it, or one this process knows, is not there or does not
 * verify.
 */
export class LedgerMismatch extends UserError {
  override readonly name = "LedgerMismatch";
}

/** Another process holds the ledger. */
export class LedgerHeld extends UserError {
  override readonly name = "LedgerHeld";

  constructor() {
    super("Another vault process writes to this database");
  }
}

/** The one connection that may write. */
export type Ledger = { client: pg.Client };

/** Held by the session of the one writer; its end, for whatever reason, frees it. */
const LEDGER_LOCK = 7_233_101;
const LOCK_WAIT_MS = 3_000;
const LOCK_NOT_AVAILABLE = "55P03";
const CLOSE_DEADLINE_MS = 1_000;

/**
 * Connects as the only writer of this database and does `prepare` on the connection before anything else.
 *
 * Throws `LedgerHeld` , what `prepare` throws, or the database's own error
 */
export async function openLedger(
  url: string,
  prepare: (client: pg.Client) => Promise<void>,
): Promise<Ledger> {
  const client = createClient(url);
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("set synchronous_commit = on");
    await hold(client);
    await prepare(client);
    return { client };
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
    await client.query(`set lock_timeout = '${LOCK_WAIT_MS}ms'`);
    await client.query("select pg_advisory_lock($1)", [LEDGER_LOCK]);
    await client.query("set lock_timeout = 0");
  } catch (error) {
    throw (error as { code?: string }).code === LOCK_NOT_AVAILABLE ? new LedgerHeld() : error;
  }
}

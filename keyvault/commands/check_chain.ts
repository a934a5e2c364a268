import { acceptHead } from "../audit/accept_head.ts";
import type { Head } from "../audit/ledger.ts";
import { type ChainVerdict, verifyChain } from "../audit/verify.ts";
import { systemClock } from "../clock.ts";
import { loadConfig } from "../config.ts";
import { type Database, openDatabase } from "../db/connection.ts";
import { VaultError } from "../errors.ts";
import { createLog, type Logger } from "../log.ts";
import { Problem } from "../problem.ts";
import { openToken, type Token, type TokenSettings } from "../token/client.ts";
import { tokenSettings } from "../token/install.ts";
import { sealPin } from "../token/pin_box.ts";
import { readPin } from "./read_pin.ts";

/**
 * Whether the audit chain of the configured vault holds and contains the heads and the one that its token has noted, by its token and its
 * database. Shows on a terminal how far it is.
 */
export async function checkChain(heads: readonly Head[]): Promise<ChainVerdict> {
  const progress = createProgress();
  return withChain(async ({ database, token }) => {
    try {
      const { head: noted } = await token.notedHead();
      const expected = noted === null ? heads : [...heads, { seq: noted.seq, mac: Buffer.from(noted.mac) }];
      return await verifyChain(database, token, expected, progress.show);
    } finally {
      progress.end();
    }
  });
}

/** Has the token of the configured vault note this end of its chain. See {@link acceptHead}. */
export async function acceptChain(end: Head): Promise<Head> {
  return withChain((parts) => acceptHead({ ...parts, clock: systemClock }, end));
}

type ChainParts = { databaseUrl: string; database: Database; token: Token; log: Logger };

async function withChain<T>(work: (parts: ChainParts) => Promise<T>): Promise<T> {
  const { token: place, databaseUrl } = loadConfig();
  const log = createLog("error");
  const token = await openHere(await tokenSettings(place), log);
  const database = openDatabase(databaseUrl, log, 1);
  try {
    return await work({ databaseUrl, database, token, log });
  } finally {
    await Promise.all([token.close(), database.destroy()]);
  }
}

/** The token, opened by its PIN file or, without one, by a PIN that is asked for. */
async function openHere(settings: TokenSettings, log: Logger): Promise<Token> {
  const token = await openToken(settings, log, "seal");
  if (token.sealed() === undefined) return token;
  try {
    const pin = await readPin(undefined);
    const box = sealPin(pin, token.offer());
    pin.fill(0);
    await token.unseal(box);
    return token;
  } catch (error) {
    await token.close();
    throw error instanceof VaultError ? new Problem(error.message) : error;
  }
}

/** A line on a terminal that says how far it is, and that is gone at the end. */
function createProgress(): { show(records: number): void; end(): void } {
  if (!process.stderr.isTTY) return { show: () => {}, end: () => {} };
  return {
    show: (records) => process.stderr.write(`\r${records} records hold so far\x1b[K`),
    end: () => process.stderr.write("\r\x1b[K"),
  };
}

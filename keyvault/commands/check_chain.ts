import { existsSync } from "node:fs";
import { compareRows, type DamagedRows } from "../audit/compare.ts";
import { type Contradiction, createReplay } from "../audit/contradictions.ts";
import { openJournal } from "../audit/journal.ts";
import { createRegister } from "../audit/last_states.ts";
import type { Caller } from "../audit/record.ts";
import { type ChainVerdict, readFrom, verifyChain, walkChain } from "../audit/verify_chain.ts";
import { closeLedger, type Head, openLedger } from "../audit/writer_connection.ts";
import { type Clock, systemClock } from "../clock.ts";
import { loadConfig } from "../config.ts";
import { type Database, openDatabase } from "../db/database.ts";
import type { AuditRow } from "../db/rows.ts";
import { UserError, VaultError } from "../errors.ts";
import { createLog, type Logger } from "../log.ts";
import { openToken, type Token, type TokenSettings } from "../token/client.ts";
import { tokenSettings } from "../token/install.ts";
import { encryptPin } from "../token/pin_box.ts";
import { readPin } from "./read_input.ts";

/** Result of a verification. It contains contradictions and damaged rows only if the chain is intact. */
export type AuditVerdict = {
  chain: ChainVerdict;
  contradictions: readonly Contradiction[];
  damaged: DamagedRows;
};

/**
 * Verifies the audit chain of the configured vault, with its token and its database. The chain must contain
 * `heads` and the head that the token has noted. Finds records that contradict each other, and rows of keys
 * and tenants that differ from the records. Shows progress on a terminal.
 */
export async function checkChain(heads: readonly Head[]): Promise<AuditVerdict> {
  const progress = createProgress();
  const register = createRegister();
  const replay = createReplay();
  const take = (records: readonly AuditRow[]): void => {
    register.apply(records);
    replay.take(records);
    progress.show(register.head().seq);
  };
  return withChain(async ({ database, token }) => {
    try {
      const { head: noted } = await token.notedHead();
      const expected = noted === null ? heads : [...heads, { seq: noted.seq, mac: Buffer.from(noted.mac) }];
      const chain = await verifyChain(database, token, expected, take);
      if (!chain.intact) return { chain, contradictions: [], damaged: { keys: [], tenants: [], waiting: 0 } };
      const catchUp = async (): Promise<void> => {
        for await (const { records, fault } of walkChain(readFrom(database), token, register.head())) {
          if (fault === undefined) take(records);
        }
      };
      const damaged = await compareRows({ database, token, register, catchUp });
      return { chain, contradictions: replay.found(), damaged };
    } finally {
      progress.end();
    }
  });
}

/** Records this end of the chain in the configured vault's token. See {@link acceptHead}. */
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

/** Opens the token with the PIN file. Without a PIN file, asks for the PIN. */
async function openHere(settings: TokenSettings, log: Logger): Promise<Token> {
  if (existsSync(settings.place.pinFile)) return openToken(settings, log);
  const token = await openToken(settings, log, "seal");
  try {
    const pin = await readPin(undefined);
    const box = encryptPin(pin, token.offer());
    pin.fill(0);
    await token.unseal(box);
    return token;
  } catch (error) {
    await token.close();
    throw error instanceof VaultError ? new UserError(error.message) : error;
  }
}

function createProgress(): { show(records: number): void; end(): void } {
  if (!process.stderr.isTTY) return { show: () => {}, end: () => {} };
  return {
    show: (records) => process.stderr.write(`\r${records} records are intact so far\x1b[K`),
    end: () => process.stderr.write("\r\x1b[K"),
  };
}

const LOCAL: Caller = { role: "local", name: "recovery" };

/**
 * Records the current end of the chain in the token, even if the token has noted a different head. Use it for
 * a database that lost its newest records for a known reason. The chain must be intact from its first record,
 * and its last record must be `end`. An audit record names the head that the token had noted before. Throws
 * `LedgerHeld` while a vault runs. Throws `UserError` if the chain is broken or has another last record.
 */
export async function acceptHead(
  parts: { databaseUrl: string; database: Database; token: Token; clock: Clock; log: Logger },
  end: Head,
): Promise<Head> {
  const { databaseUrl, database, token } = parts;
  const { head: noted } = await token.notedHead();
  const ledger = await openLedger(databaseUrl, async () => {
    const verdict = await verifyChain(database, token);
    if (!verdict.intact) {
      throw new UserError(
        `The audit chain is broken at record ${verdict.seq}: put the genuine record back first`,
      );
    }
    if (verdict.head.seq !== end.seq || !verdict.head.mac.equals(end.mac)) {
      throw new UserError(
        `The chain ends with ${verdict.head.seq}:${verdict.head.mac.toString("hex")}, not with the head that you gave`,
      );
    }
    await token.noteHead(verdict.head, true);
  });
  await closeLedger(ledger.client);
  const journal = await openJournal({ ...parts, register: createRegister(), reopened: () => {} });
  try {
    const before = noted === null ? "none" : `${noted.seq}:${Buffer.from(noted.mac).toString("hex")}`;
    const detail = { noted: before, accepted: String(end.seq) };
    await journal.change(async () => ({
      value: undefined,
      entry: { caller: LOCAL, statement: "head_accept", outcome: "granted", detail },
    }));
    return journal.head();
  } finally {
    await journal.close();
  }
}

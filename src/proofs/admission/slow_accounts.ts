import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import { LOCK_NOT_AVAILABLE, sqlState } from "../../db/errors.ts";
import { type DecisionOutcome, decideBatch } from "../decide/decision.ts";
import type { DecisionItem } from "../decide/decision_item.ts";
import type { Decide } from "./batch.ts";

/** Milliseconds that a batch waits for a row somebody else holds, before it is taken apart. */
export const QUICK_LOCK_MS = 50;
/** Milliseconds that a lone item waits for such a row before it is answered with `unavailable`. */
export const PATIENT_LOCK_MS = 2_000;
/** How long an account's decisions keep out of the batches after one of its rows was held. */
const AVOID_MS = 1_000;
const AVOIDED_ACCOUNTS = 10_000;

/**
 * Keeps accounts from waiting for each other. Decisions of all accounts share batches, so one row that is
 * held for long (somebody ends thousands of certificates in one go) would hold everybody up. A batch gives
 * such a row up immediately; whoever needs it waits apart, and so do the next decisions of that account.
 *
 * `batched` is a batcher whose statements wait `QUICK_LOCK_MS` for a row, `patient` a small pool whose
 * statements wait `PATIENT_LOCK_MS`.
 */
export function separateSlowAccounts(batched: Decide, patient: Pool): Decide {
  const avoided = new LRUCache<string, true>({ max: AVOIDED_ACCOUNTS, ttl: AVOID_MS });

  async function decideAlone(item: DecisionItem, onHeld?: () => void): Promise<DecisionOutcome> {
    onHeld?.();
    const [outcome] = await decideBatch(patient, [item]);
    return outcome as DecisionOutcome;
  }

  return async (item, onHeld) => {
    const accounts = new Set([item.accountId, ...item.certificates.map(({ accountId }) => accountId)]);
    if ([...accounts].some((accountId) => avoided.has(accountId))) return decideAlone(item, onHeld);
    try {
      return await batched(item);
    } catch (error) {
      if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error;
      for (const accountId of accounts) avoided.set(accountId, true);
      return decideAlone(item, onHeld);
    }
  };
}

import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import { LOCK_NOT_AVAILABLE, sqlState } from "../../db/errors.ts";
import { ApiError } from "../../errors.ts";
import { type DecisionOutcome, decideBatch } from "../decide/decision.ts";
import type { DecisionItem } from "../decide/decision_item.ts";

/** Decides an item. Calls `onHeld` before it waits longer for a row that another transaction has locked. */
export type Decide = (item: DecisionItem, onHeld?: () => void) => Promise<DecisionOutcome>;

/**
 * Limits of a batcher. It sends at most `maxItems` per statement, and at most `maxStatements` statements at a
 * time. A batch that is not full waits for the running statement, but at most `maxWaitMs`. The batcher
 * refuses items that waited longer than `maxQueueMs`.
 */
export type BatchLimits = { maxItems: number; maxWaitMs: number; maxStatements: number; maxQueueMs: number };

const defaultLimits: BatchLimits = { maxItems: 64, maxWaitMs: 10, maxStatements: 2, maxQueueMs: 5_000 };

type Waiting = {
  item: DecisionItem;
  since: number;
  resolve(outcome: DecisionOutcome): void;
  reject(error: unknown): void;
};

/**
 * Creates a batcher that combines concurrent decisions into one statement. A second statement runs in
 * parallel only for a full batch, or if the first statement takes long. An item that could not be sent in
 * time is refused with `unavailable`. It was not decided and never will be.
 */
export function createBatcher(pool: Pool, limits: BatchLimits = defaultLimits): Decide {
  let waiting: Waiting[] = [];
  let running = 0;
  let soon: NodeJS.Immediate | undefined;
  let timer: NodeJS.Timeout | undefined;

  function schedule(): void {
    if (running >= limits.maxStatements || waiting.length === 0) return;
    if (waiting.length >= limits.maxItems || running === 0) {
      soon ??= setImmediate(flush);
    } else {
      timer ??= setTimeout(flush, limits.maxWaitMs);
    }
  }

  function flush(): void {
    clearImmediate(soon);
    clearTimeout(timer);
    soon = undefined;
    timer = undefined;
    refuseLate();
    if (running >= limits.maxStatements || waiting.length === 0) return;
    const batch = waiting.slice(0, limits.maxItems);
    waiting = waiting.slice(limits.maxItems);
    running += 1;
    void decideTogether(pool, batch).finally(() => {
      running -= 1;
      schedule();
    });
    schedule();
  }

  function refuseLate(): void {
    const oldest = performance.now() - limits.maxQueueMs;
    const late = waiting.filter(({ since }) => since < oldest);
    if (late.length === 0) return;
    waiting = waiting.filter(({ since }) => since >= oldest);
    for (const { reject } of late) reject(new ApiError("unavailable"));
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, since: performance.now(), resolve, reject });
      schedule();
    });
}

/** Decides a batch. If the database rejects it, sends each item once more on its own. Never rejects. */
async function decideTogether(pool: Pool, batch: readonly Waiting[], isLastTry = false): Promise<void> {
  try {
    const outcomes = await decideBatch(
      pool,
      batch.map((waiting) => waiting.item),
    );
    batch.forEach((waiting, n) => {
      waiting.resolve(outcomes[n] as DecisionOutcome);
    });
  } catch (error) {
    if (!wasRefused(error) || isLastTry) {
      for (const waiting of batch) waiting.reject(error);
      return;
    }
    await Promise.all(batch.map((waiting) => decideTogether(pool, [waiting], true)));
  }
}

/** SQLSTATE classes of errors that change nothing: bad data, constraint violation, rollback, lock timeout. */
const refusals = ["22", "23", "40", "55"];

function wasRefused(error: unknown): boolean {
  return refusals.includes(sqlState(error)?.slice(0, 2) ?? "");
}

/** Milliseconds that a batch waits for a locked row before its items are decided one by one. */
export const QUICK_LOCK_MS = 50;
/** Milliseconds that a single item waits for a locked row before it fails with `unavailable`. */
export const PATIENT_LOCK_MS = 2_000;
/** Milliseconds for which an account's decisions avoid the batches after one of its rows was locked. */
const AVOID_MS = 1_000;
const AVOIDED_ACCOUNTS = 10_000;

/**
 * Returns a decider that prevents one account's locked rows from delaying other accounts. An item that needs
 * a locked row waits alone, and so do the next decisions of its account. `batched` must wait for a locked row
 * for at most `QUICK_LOCK_MS`, and `patient` for at most `PATIENT_LOCK_MS`.
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

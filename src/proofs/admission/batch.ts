import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import type { CreditSource, CreditSources } from "../../accounts/ledger/credit_source.ts";
import { atMost } from "../../concurrency/at_most.ts";
import { LOCK_NOT_AVAILABLE, sqlState } from "../../db/errors.ts";
import { ApiError } from "../../errors.ts";
import { type BatchOutcome, type DecisionOutcome, decideBatch } from "../decide/decision.ts";
import type { DecisionItem } from "../decide/decision_item.ts";
import { decideHolding } from "./held_credit.ts";

/** Decides an item. Calls `onHeld` before it waits longer for a row that another transaction has locked. */
export type Decide = (item: DecisionItem, onHeld?: () => void) => Promise<DecisionOutcome>;

/**
 * Limits of a batcher. It sends at most `maxItems` per statement, and at most `maxStatements` statements at a
 * time. A batch that is not full waits for the running statement, but at most `maxWaitMs`. The batcher
 * refuses items that waited longer than `maxQueueMs`.
 */
export type BatchLimits = { maxItems: number; maxWaitMs: number; maxStatements: number; maxQueueMs: number };

const defaultLimits: BatchLimits = { maxItems: 64, maxWaitMs: 10, maxStatements: 2, maxQueueMs: 5_000 };

/** A batch of this many items waits for no further calls: larger ones take little less time for each item. */
const ENOUGH_ITEMS = 8;

type Waiting = {
  item: DecisionItem;
  since: number;
  resolve(outcome: DecisionOutcome): void;
  reject(error: unknown): void;
};

/** The connections on which batches run, and the memory of what their accounts pay from. */
export type BatchPlace = { pool: Pool; sources: CreditSources };

/**
 * Creates a batcher that combines concurrent decisions into one statement. A second statement runs in
 * parallel only for a full batch, or if the first statement takes long. An item that could not be sent in
 * time is refused with `unavailable`. It was not decided and never will be.
 *
 * A statement and its commit cost as much as about ten of its items. So a small batch also waits until all
 * calls at work have arrived, for at most `maxWaitMs`. `callsAtWork` counts these calls, including those
 * whose items wait here.
 */
export function createBatcher(
  place: BatchPlace,
  limits: BatchLimits = defaultLimits,
  callsAtWork: () => number = () => 0,
): Decide {
  let waiting: Waiting[] = [];
  let running = 0;
  let soon: NodeJS.Immediate | undefined;
  let timer: NodeJS.Timeout | undefined;

  function schedule(): void {
    if (running >= limits.maxStatements || waiting.length === 0) return;
    if (waiting.length >= limits.maxItems || (running === 0 && isGathered())) {
      soon ??= setImmediate(flush);
    } else {
      timer ??= setTimeout(flush, limits.maxWaitMs);
    }
  }

  function isGathered(): boolean {
    return waiting.length >= Math.min(ENOUGH_ITEMS, callsAtWork());
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
    void decideTogether(place, batch).finally(() => {
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

/** How often an item is sent again after the database refused its batch, or its account paid otherwise. */
const TRIES = 8;
/** With so few tries left, a transaction first holds what an account pays from. */
const TRIES_HELD = TRIES - 2;
/** The most statements that replace a refused one. */
const MOST_PARTS = 8;

/**
 * Decides a batch, with one statement for each source of credit. Never rejects.
 *
 * If the database refuses a statement, sends its accounts again in groups, until each account disturbs only
 * itself. The items of one account are then halved, down to the item that is to blame. If they need a locked
 * row, they are rejected together.
 */
async function decideTogether(place: BatchPlace, batch: readonly Waiting[], tries = TRIES): Promise<void> {
  const bySource = Map.groupBy(batch, ({ item }) => place.sources.of(item.accountId));
  await Promise.all([...bySource].map(([source, part]) => decidePart(place, part, { source, tries })));
}

function send(
  { pool, sources }: BatchPlace,
  items: readonly DecisionItem[],
  source: CreditSource | "held",
): Promise<BatchOutcome[]> {
  return source === "held" ? decideHolding(pool, items) : decideBatch(pool, items, source, sources.onAmple);
}

async function decidePart(
  place: BatchPlace,
  part: readonly Waiting[],
  { source, tries }: { source: CreditSource | "held"; tries: number },
): Promise<void> {
  const items = part.map(({ item }) => item);
  let outcomes: BatchOutcome[];
  try {
    outcomes = await send(place, items, source);
  } catch (error) {
    const smaller = tries > 0 && wasRefused(error) ? partsOf(part, { error, isFirst: tries === TRIES }) : [];
    if (smaller.length === 0) for (const { reject } of part) reject(error);
    await Promise.all(smaller.map((each) => decideTogether(place, each, tries - 1)));
    return;
  }
  const unfunded: Waiting[] = [];
  for (const [n, outcome] of outcomes.entries()) {
    const waiting = part[n] as Waiting;
    if (outcome.kind === "unfunded") unfunded.push(waiting);
    else waiting.resolve(outcome);
  }
  if (unfunded.length > 0 && source !== "held") await decideUnfunded(place, unfunded, { source, tries });
}

/**
 * Finds out what the accounts of these items pay from, and sends the items again. If others use or took it,
 * one transaction for each account holds what it pays from, and decides.
 */
async function decideUnfunded(
  place: BatchPlace,
  part: readonly Waiting[],
  { source, tries }: { source: CreditSource; tries: number },
): Promise<void> {
  const accountIds = [...new Set(part.map(({ item }) => item.accountId))];
  try {
    const settled = await place.sources.settle(place.pool, accountIds, source);
    const [payers, busy]: [Waiting[], Waiting[]] = [[], []];
    for (const waiting of part) {
      const result = settled.get(waiting.item.accountId);
      if (result === undefined) waiting.resolve({ kind: "credits_exhausted" });
      else if (result.status === "rejected") waiting.reject(result.reason);
      else (result.value === "busy" || tries <= TRIES_HELD ? busy : payers).push(waiting);
    }
    const apart = [...Map.groupBy(busy, ({ item }) => item.accountId).values()];
    await Promise.all([
      decideTogether(place, payers, tries - 1),
      ...apart.map((items) => decidePart(place, items, { source: "held", tries: tries - 1 })),
    ]);
  } catch (error) {
    for (const { reject } of part) reject(error);
  }
}

/**
 * Returns the parts of a refused batch that are sent again: at most `MOST_PARTS` groups of whole accounts, or
 * one account's items once more, and then their halves.
 */
function partsOf(
  part: readonly Waiting[],
  { error, isFirst }: { error: unknown; isFirst: boolean },
): Waiting[][] {
  const accounts = [...Map.groupBy(part, ({ item }) => lockedTogether(item).join(" ")).values()];
  if (accounts.length > 1) {
    const groups = Map.groupBy(accounts.entries(), ([n]) => n % MOST_PARTS);
    return [...groups.values()].map((group) => group.flatMap(([, items]) => items));
  }
  if (sqlState(error) === LOCK_NOT_AVAILABLE) return [];
  if (isFirst) return accounts;
  const half = Math.ceil(part.length / 2);
  return part.length === 1 ? [] : [part.slice(0, half), part.slice(half)];
}

/** Returns the accounts whose rows a decision locks. */
function lockedTogether({ accountId, certificates }: DecisionItem): string[] {
  return [...new Set([accountId, ...certificates.map((certificate) => certificate.accountId)])].sort();
}

/** SQLSTATE classes of errors that change nothing: bad data, constraint violation, rollback, lock timeout. */
const refusals = ["22", "23", "40", "55"];

function wasRefused(error: unknown): boolean {
  return refusals.includes(sqlState(error)?.slice(0, 2) ?? "");
}

/** Milliseconds that a batch waits for a locked row before the accounts that need the row wait apart. */
export const QUICK_LOCK_MS = 50;
/** Milliseconds that these accounts wait for a locked row before their items fail with `unavailable`. */
export const PATIENT_LOCK_MS = 2_000;
/** Milliseconds for which an account's decisions avoid the batches after one of its rows was locked. */
const AVOID_MS = 1_000;
const AVOIDED_ACCOUNTS = 10_000;

/**
 * Returns a decider that prevents one account's locked rows from delaying other accounts. The items that need
 * a locked row wait together, apart from the batches, and so do the next decisions of their accounts.
 * `batched` must wait for a locked row for at most `QUICK_LOCK_MS`, and the pool of `patient` for at most
 * `PATIENT_LOCK_MS`.
 */
export function separateSlowAccounts(batched: Decide, patient: BatchPlace): Decide {
  const avoided = new LRUCache<string, true>({ ...atMost(AVOIDED_ACCOUNTS), ttl: AVOID_MS });
  const lanes = new LRUCache<string, Decide>(atMost(AVOIDED_ACCOUNTS));

  function decideApart(
    item: DecisionItem,
    accounts: string[],
    onHeld?: () => void,
  ): Promise<DecisionOutcome> {
    onHeld?.();
    const key = accounts.join(" ");
    const lane = lanes.get(key) ?? createBatcher(patient, { ...defaultLimits, maxStatements: 1 });
    lanes.set(key, lane);
    return lane(item);
  }

  return async (item, onHeld) => {
    const accounts = lockedTogether(item);
    if (accounts.some((accountId) => avoided.has(accountId))) return decideApart(item, accounts, onHeld);
    try {
      return await batched(item);
    } catch (error) {
      if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error;
      for (const accountId of accounts) avoided.set(accountId, true);
      return decideApart(item, accounts, onHeld);
    }
  };
}

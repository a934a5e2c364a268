import { ApiError } from "../../errors.ts";

/** Bounds of a fair queue. Times are in milliseconds. */
export type FairQueueBounds = {
  /** Number of slots: the maximum number of calls that run at a time. */
  places: number;
  /**
   * Number of slots that one account may use if other accounts call or have called in the last seconds. It
   * equals the largest number of concurrent calls of any other account, but is at least `least` and at most
   * `most`. If no other account has a call now, it is `most`.
   */
  share: { least: number; most: number };
  waitMs: number;
  /** Maximum number of calls that wait at a time. */
  most: number;
  /** A call that runs longer waits for something outside this process, so its slot goes to another call. */
  longMs: number;
};

/** Why the queue refused a call. `late`: it waited too long. `full`: too many calls waited. */
export type QueueRefusal = "late" | "full";

/** Frees a call's slot before the call waits for something that other calls hold. */
export type StepAside = () => void;

/** A queue of calls that serves the accounts in rotation. */
export type FairQueue = {
  /**
   * Runs `work` once a slot is free, and returns its result. Throws `unavailable`, with `Retry-After`, if no
   * slot becomes free within `waitMs` or if `most` calls already wait. When the queue is full, a call from an
   * account with fewer waiting calls replaces the newest call of the account with the most.
   */
  run<T>(accountId: string, work: (stepAside: StepAside) => Promise<T>): Promise<T>;
  readonly running: number;
  readonly waiting: number;
};

const TICK_MS = 25;
/** Number of late calls refused in one pass. Other work waits meanwhile. Grows to `most` if many are late. */
const PASS_SIZE = { least: 8, most: 64 };
/** Pause between two passes, in milliseconds. */
const PAUSE_MS = 2;
/** Time within which all late calls should be refused, in milliseconds. */
const SPREAD_MS = 100;
/** After a call of one account, no other account may use all slots for this time, or up to twice as long. */
const CALLED_MS = 1_000;
/** A call affects other accounts' shares for this time, or up to twice as long. Clients pause for less. */
const BUSY_MS = 100;

type Waiting = { since: number; start(): void; refuse(refusal: QueueRefusal): void };
type Place = { accountId: string; since: number };

/**
 * Creates an empty queue. Work on a call starts only when the call has a slot, so a refused call has spent
 * and charged nothing.
 */
export function createFairQueue(
  bounds: FairQueueBounds,
  onRefused: (refusal: QueueRefusal) => void = () => {},
): FairQueue {
  /** Waiting calls of each account that has any. The accounts are in the order in which they are served. */
  const queues = new Map<string, Waiting[]>();
  /** Occupied slots, oldest first. */
  const places = new Set<Place>();
  const heldPlaces = new Map<string, number>();
  const called = createRecentAccounts(CALLED_MS);
  const busy = createRecentAccounts(BUSY_MS);
  let waiting = 0;
  let isTicking = false;
  let tickedAt = performance.now();

  function takePlace(accountId: string): Place {
    const place = { accountId, since: performance.now() };
    places.add(place);
    heldPlaces.set(accountId, (heldPlaces.get(accountId) ?? 0) + 1);
    noteCalls(accountId);
    return place;
  }

  function noteCalls(accountId: string): void {
    const calls = (heldPlaces.get(accountId) ?? 0) + (queues.get(accountId)?.length ?? 0);
    called.note(accountId, calls);
    busy.note(accountId, calls);
  }

  function giveUp(place: Place): void {
    if (!places.delete(place)) return;
    const left = (heldPlaces.get(place.accountId) ?? 0) - 1;
    if (left === 0) heldPlaces.delete(place.accountId);
    else heldPlaces.set(place.accountId, left);
  }

  function hasPlaceFor(accountId: string): boolean {
    return places.size < bounds.places && (heldPlaces.get(accountId) ?? 0) < placesOf(accountId);
  }

  function placesOf(accountId: string): number {
    const { least, most } = bounds.share;
    if (called.mostOfOthers(accountId) === 0) return bounds.places;
    const others = busy.mostOfOthers(accountId);
    return others === 0 ? most : Math.min(most, Math.max(least, others));
  }

  /** Returns the number of late calls, which are first in the queue. Their clients may have disconnected. */
  function lateIn(queue: readonly Waiting[], now: number): number {
    const first = queue.findIndex(({ since }) => now - since < bounds.waitMs);
    return first === -1 ? queue.length : first;
  }

  /** Starts waiting calls. A served account moves to the end of the map, where the loop reaches it again. */
  function startWaiting(now = performance.now()): void {
    for (const [accountId, queue] of queues) {
      if (places.size >= bounds.places) return;
      if (!hasPlaceFor(accountId)) continue;
      const [next] = queue.splice(lateIn(queue, now), 1);
      if (next === undefined) continue;
      queues.delete(accountId);
      if (queue.length > 0) queues.set(accountId, queue);
      waiting -= 1;
      next.start();
    }
  }

  function tick(): void {
    const now = performance.now();
    for (const place of places) {
      if (now - place.since < bounds.longMs) break;
      giveUp(place);
    }
    const isDone = refuseLate(now, Math.min(TICK_MS, now - tickedAt));
    tickedAt = now;
    startWaiting(now);
    isTicking = false;
    keepTicking(isDone ? TICK_MS : PAUSE_MS);
  }

  /** Refuses the same share of each account's late calls. Returns whether no late call remains. */
  function refuseLate(now: number, passedMs: number): boolean {
    const late = [...queues].map(([accountId, queue]) => ({ accountId, queue, count: lateIn(queue, now) }));
    const all = late.reduce((sum, { count }) => sum + count, 0);
    const wanted = Math.max(PASS_SIZE.least, Math.ceil((all * passedMs) / SPREAD_MS));
    const part = Math.min(1, Math.min(PASS_SIZE.most, wanted) / all);
    let refused = 0;
    for (const { accountId, queue, count } of late) {
      if (refused >= PASS_SIZE.most) break;
      const own = Math.ceil(count * part);
      drop(accountId, queue.splice(0, own), "late");
      refused += own;
    }
    return refused === all;
  }

  function keepTicking(ms = TICK_MS): void {
    if (isTicking || waiting === 0) return;
    isTicking = true;
    setTimeout(tick, ms);
  }

  function drop(accountId: string, dropped: readonly Waiting[], refusal: QueueRefusal): void {
    waiting -= dropped.length;
    if (queues.get(accountId)?.length === 0) queues.delete(accountId);
    for (const { refuse } of dropped) refuse(refusal);
  }

  /** Checks whether one more call of an account may wait. May drop another account's call to make room. */
  function makeRoom(accountId: string): boolean {
    if (waiting < bounds.most) return true;
    const own = queues.get(accountId)?.length ?? 0;
    const [longest, queue] = [...queues].reduce((a, b) => (b[1].length > a[1].length ? b : a));
    if (queue.length <= own + 1) return false;
    drop(longest, queue.splice(-1), "full");
    return true;
  }

  function refused(refusal: QueueRefusal): ApiError {
    onRefused(refusal);
    return new ApiError(
      "unavailable",
      "Too many calls wait for a decision; nothing was decided, so try again",
    );
  }

  function waitForPlace(accountId: string): Promise<Place> {
    if (!makeRoom(accountId)) return Promise.reject(refused("full"));
    waiting += 1;
    keepTicking();
    return new Promise((resolve, reject) => {
      const queue = queues.get(accountId) ?? [];
      queues.set(accountId, queue);
      queue.push({
        since: performance.now(),
        start: () => resolve(takePlace(accountId)),
        refuse: (refusal) => reject(refused(refusal)),
      });
      noteCalls(accountId);
    });
  }

  return {
    get running() {
      return places.size;
    },
    get waiting() {
      return waiting;
    },
    async run(accountId, work) {
      const isFree = !queues.has(accountId) && hasPlaceFor(accountId);
      const place = isFree ? takePlace(accountId) : await waitForPlace(accountId);
      const leave = () => {
        giveUp(place);
        startWaiting();
      };
      try {
        return await work(leave);
      } finally {
        leave();
      }
    },
  };
}

type RecentAccounts = {
  /** Records that an account now has this many calls, running or waiting. `calls` is at least 1. */
  note(accountId: string, calls: number): void;
  /** Returns the largest number of concurrent calls of any other account, or 0 if no other account called. */
  mostOfOthers(accountId: string): number;
};

type Noted = { accountId: string; calls: number };
/** The two accounts with the most concurrent calls. No query needs a third account. */
type Round = Noted[];

/** Creates an empty record. A noted number counts for `roundMs` milliseconds, or up to twice as long. */
export function createRecentAccounts(
  roundMs: number,
  now: () => number = () => performance.now(),
): RecentAccounts {
  let [before, current]: [Round, Round] = [[], []];
  let until = now() + roundMs;

  function turn(): void {
    const time = now();
    if (time < until) return;
    before = time < until + roundMs ? current : [];
    current = [];
    until = time + roundMs;
  }

  function mostIn([first, second]: Round, accountId: string): number {
    return (first?.accountId === accountId ? second?.calls : first?.calls) ?? 0;
  }

  return {
    note(accountId, calls) {
      turn();
      const known = current.find((noted) => noted.accountId === accountId);
      if (known === undefined) current.push({ accountId, calls });
      else known.calls = Math.max(known.calls, calls);
      current.sort((a, b) => b.calls - a.calls).splice(2);
    },
    mostOfOthers(accountId) {
      turn();
      return Math.max(mostIn(before, accountId), mostIn(current, accountId));
    },
  };
}

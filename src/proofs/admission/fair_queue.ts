import { ApiError } from "../../errors.ts";

/** How much is worked on at a time, and what may wait for it. Times are milliseconds. */
export type FairQueueBounds = {
  /** Calls that are worked on at a time. */
  places: number;
  /**
   * Of them those of one account while others call too: as many as the other one with the most has calls, but
   * no fewer than `least` and no more than `most`, which it is when they called, but not just now.
   */
  share: { least: number; most: number };
  /** How long a call waits for a place. */
  waitMs: number;
  /** Calls that wait at a time. */
  most: number;
  /** A call that takes longer waits for something else than this process, and its place is another's. */
  longMs: number;
};

/** Why a call was refused: it waited for too long, or too many waited. */
export type QueueRefusal = "late" | "full";

/** Gives a call's place up: what it does next is to wait for something that others hold. */
export type StepAside = () => void;

/** Has calls wait for each other, accounts by turns. */
export type FairQueue = {
  /**
   * What `work` gives, which begins once there is a place. Throws `unavailable`, with `Retry-After`, when
   * there was none within `waitMs`, a little later when many are late, or when `most` wait. The account with
   * the most waiting gives up its newest for a call of an account with fewer.
   */
  run<T>(accountId: string, work: (stepAside: StepAside) => Promise<T>): Promise<T>;
  /** Calls that have a place. */
  readonly running: number;
  readonly waiting: number;
};

const TICK_MS = 25;
/**
 * Calls that waited for too long are refused so many at a time, which others wait for: the most when there
 * are so many late ones that it would take too long otherwise.
 */
const AT_A_TIME = { least: 8, most: 64 };
/** Milliseconds between two times. */
const PAUSE_MS = 2;
/** In which as many are refused as are late. */
const SPREAD_MS = 100;
/** So long after a call of others, and twice as long at most, an account does not take all places. */
const CALLED_MS = 1_000;
/** So long, and twice as long at most, it matters how many they had: longer than their way back to us. */
const BUSY_MS = 100;

type Waiting = { since: number; start(): void; refuse(refusal: QueueRefusal): void };
type Place = { accountId: string; since: number };

/**
 * An empty queue. `onRefused` hears of each call that is refused. Nothing of a call is done before it has a
 * place, so one that is refused has spent and charged nothing.
 */
export function createFairQueue(
  bounds: FairQueueBounds,
  onRefused: (refusal: QueueRefusal) => void = () => {},
): FairQueue {
  /** Each with at least one call, in the order of their turns. */
  const queues = new Map<string, Waiting[]>();
  /** In the order in which they were taken. */
  const places = new Set<Place>();
  const held = new Map<string, number>();
  const called = createRecentAccounts(CALLED_MS);
  const busy = createRecentAccounts(BUSY_MS);
  let waiting = 0;
  let isTicking = false;
  let tickedAt = performance.now();

  function take(accountId: string): Place {
    const place = { accountId, since: performance.now() };
    places.add(place);
    held.set(accountId, (held.get(accountId) ?? 0) + 1);
    noteCalls(accountId);
    return place;
  }

  function noteCalls(accountId: string): void {
    const calls = (held.get(accountId) ?? 0) + (queues.get(accountId)?.length ?? 0);
    called.note(accountId, calls);
    busy.note(accountId, calls);
  }

  /** Nothing for a place that was given up before. */
  function giveUp(place: Place): void {
    if (!places.delete(place)) return;
    const left = (held.get(place.accountId) ?? 0) - 1;
    if (left === 0) held.delete(place.accountId);
    else held.set(place.accountId, left);
  }

  function hasPlaceFor(accountId: string): boolean {
    return places.size < bounds.places && (held.get(accountId) ?? 0) < placesOf(accountId);
  }

  function placesOf(accountId: string): number {
    const { least, most } = bounds.share;
    if (called.mostOfOthers(accountId) === 0) return bounds.places;
    const others = busy.mostOfOthers(accountId);
    return others === 0 ? most : Math.min(most, Math.max(least, others));
  }

  /** How many of a queue are late: its first ones. Whoever sent them may have gone, so none is begun. */
  function lateIn(queue: readonly Waiting[], now: number): number {
    const first = queue.findIndex(({ since }) => now - since < bounds.waitMs);
    return first === -1 ? queue.length : first;
  }

  /** Whose turn it was comes last, and is met again as long as there are places. */
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

  /** Refuses of each account the same part of those that are late. Whether these were all. */
  function refuseLate(now: number, passedMs: number): boolean {
    const late = [...queues].map(([accountId, queue]) => ({ accountId, queue, count: lateIn(queue, now) }));
    const all = late.reduce((sum, { count }) => sum + count, 0);
    const wanted = Math.max(AT_A_TIME.least, Math.ceil((all * passedMs) / SPREAD_MS));
    const part = Math.min(1, Math.min(AT_A_TIME.most, wanted) / all);
    let refused = 0;
    for (const { accountId, queue, count } of late) {
      if (refused >= AT_A_TIME.most) break;
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

  /** Whether there is room for one more of an account to wait. */
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
    return new ApiError("unavailable", "More decisions are asked for than can be made; nothing was decided");
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
        start: () => resolve(take(accountId)),
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
      const place = isFree ? take(accountId) : await waitForPlace(accountId);
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

/** Which accounts called a short while ago, and with how many calls at a time. */
type RecentAccounts = {
  /** An account has so many calls now, at work or waiting: one at least. */
  note(accountId: string, calls: number): void;
  /** The most calls that one other account had at a time; 0 when no other has called. */
  mostOfOthers(accountId: string): number;
};

type Noted = { accountId: string; calls: number };
/** Who had the most calls at a time and who of the others had, which is all that is ever asked for. */
type Round = Noted[];

/** Nobody has called yet. What is noted counts for `roundMs` milliseconds, and for twice as long at most. */
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

import type { Clock } from "../../clock.ts";

/** Keeps a reader a member of its group while it works on batches. */
export type Membership = {
  /** Works on a batch. `beat` gives a sign of life if one is due, and rejects once the group moved on. */
  during(beat: () => Promise<void>, work: () => Promise<void>): Promise<void>;
  /** Throws why the batch is to be left, when the group has moved on. */
  stay(): void;
  /** Something was worked off. Rejects as {@link Membership.stay} throws. */
  progress(): Promise<void>;
  /** Whether an error is why batches are to be left. */
  isReason(error: unknown): boolean;
};

/** Longer than anything takes that is worked off in one go. */
const STUCK_MS = 60_000;
/** The answer to a sign of life while the group waits for its members to join again. */
const REBALANCING = "REBALANCE_IN_PROGRESS";

/**
 * Gives signs of life by the clock too, every `beatMs`, as long as any batch is worked on: partitions wait
 * for each other's transactions, and a group gives those of a silent member away. When the group has moved
 * on, `left` is told why, once, so that what waits can be left, and batches under way end at their next
 * progress: the others of the group wait for that, as long as there are signs of life. Who has worked nothing
 * off for a minute gives no more of them, so that others take its partitions.
 */
export function keepMembership(deps: {
  clock: Clock;
  beatMs: number;
  left(reason: unknown): void;
}): Membership {
  const { clock, beatMs, left } = deps;
  const beats = new Set<() => Promise<void>>();
  let reason: unknown;
  /** Batches that overlap are of one wave; a reader joins its group again between two of them. */
  let wave = 0;
  let workedAt = 0;
  let timer: NodeJS.Timeout | undefined;
  let isBeating = false;

  function isMember(): boolean {
    const isStuck = clock.now().getTime() - workedAt > STUCK_MS;
    return !isStuck && (reason === undefined || typeOf(reason) === REBALANCING);
  }

  async function beat(): Promise<void> {
    const [any] = beats;
    if (any === undefined || isBeating || !isMember()) return;
    const own = wave;
    isBeating = true;
    try {
      await any();
    } catch (error) {
      if (beats.size === 0 || own !== wave || reason !== undefined) return;
      reason = error;
      left(error);
    } finally {
      isBeating = false;
    }
  }

  function begin(own: () => Promise<void>): void {
    if (beats.size === 0) {
      reason = undefined;
      wave += 1;
      workedAt = clock.now().getTime();
      timer = setInterval(() => void beat(), beatMs);
    }
    beats.add(own);
  }

  function end(own: () => Promise<void>): void {
    beats.delete(own);
    if (beats.size === 0) clearInterval(timer);
  }

  function stay(): void {
    if (reason !== undefined) throw reason;
  }

  return {
    async during(given, work) {
      const own = () => given();
      begin(own);
      try {
        stay();
        await work();
      } finally {
        end(own);
      }
    },
    stay,
    async progress() {
      workedAt = clock.now().getTime();
      stay();
      await beat();
      stay();
    },
    isReason: (error) => reason !== undefined && error === reason,
  };
}

function typeOf(error: unknown): unknown {
  return error instanceof Error && "type" in error ? error.type : undefined;
}

/** Notices a reader that stays silent although Kafka answers. */
type Watchdog = {
  /** The reader did something. */
  sign(): void;
  /** For how long it has done nothing. */
  silentSeconds(): number;
  /** Tells `fatal`, once, when it has been silent for too long. */
  check(): Promise<void>;
};

/** Longer than Kafka leaves a silent reader its partitions, and than a rebalance takes. */
const SILENT_MS = 120_000;
/** It is checked more often, unless its process was frozen. */
const FROZEN_MS = 60_000;

/**
 * A reader fetches or sends a sign of life every few seconds, also when it has nothing to read. One that does
 * not, while Kafka answers others, will not begin again by itself: its process is to end. `answers` rejects
 * while Kafka does not answer: then all are silent, and wait. While the process is frozen nothing can give a
 * sign, so that time does not count.
 */
export function createWatchdog(deps: {
  name: string;
  clock: Clock;
  answers(): Promise<void>;
  fatal(error: Error): void;
}): Watchdog {
  const { name, clock, answers, fatal } = deps;
  let last = clock.now().getTime();
  let checkedAt = last;
  let isTold = false;
  const silentMs = () => clock.now().getTime() - last;
  return {
    sign() {
      last = clock.now().getTime();
    },
    silentSeconds: () => silentMs() / 1000,
    async check() {
      const now = clock.now().getTime();
      if (now - checkedAt > FROZEN_MS) last = now;
      checkedAt = now;
      if (isTold || silentMs() < SILENT_MS) return;
      try {
        await answers();
      } catch {
        last = clock.now().getTime();
        return;
      }
      if (silentMs() < SILENT_MS) return;
      isTold = true;
      fatal(new Error(`The reader ${name} has been silent for ${SILENT_MS / 1000} s although Kafka answers`));
    },
  };
}

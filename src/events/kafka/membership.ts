import type { Clock } from "../../clock.ts";

/** Keeps a reader a member of its group while it works on batches. */
export type Membership = {
  /** Runs work on a batch. `beat` sends a heartbeat if one is due, and rejects during a rebalance. */
  during(beat: () => Promise<void>, work: () => Promise<void>): Promise<void>;
  /** If the group is rebalancing, throws the reason to abandon the batch. */
  stay(): void;
  /** Records progress on a batch. Rejects if the batch must be abandoned. */
  progress(): Promise<void>;
  /** Returns whether an error is the reason that `stay` throws. */
  isReason(error: unknown): boolean;
};

/** Milliseconds without progress after which heartbeats stop. No single piece of work takes that long. */
const STUCK_MS = 60_000;
/** The answer to a heartbeat while the group waits until its members join again. */
const REBALANCING = "REBALANCE_IN_PROGRESS";

/**
 * Sends heartbeats every `beatMs` while the reader works on any batch. Partitions wait for each other's
 * transactions, and the group would take a silent member's partitions away.
 *
 * When the group starts to rebalance, calls `left` once with the reason. Batches in progress end at their
 * next call of `progress`. The group waits for them while heartbeats continue. Without progress for a minute,
 * the heartbeats stop, so that other members take over the partitions.
 */
export function keepMembership(deps: {
  clock: Clock;
  beatMs: number;
  left(reason: unknown): void;
}): Membership {
  const { clock, beatMs, left } = deps;
  const beats = new Set<() => Promise<void>>();
  let reason: unknown;
  /** Batches that overlap belong to one wave. The reader joins its group again between two waves. */
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

type Watchdog = {
  /** Records activity of the reader. */
  sign(): void;
  silentSeconds(): number;
  /** Calls `fatal` once if the reader has been silent for too long. */
  check(): Promise<void>;
};

/** Longer than Kafka reserves partitions for a silent reader, and longer than a rebalance takes. */
const SILENT_MS = 120_000;
/** A longer interval between two checks means that the process was frozen. */
const FROZEN_MS = 60_000;

/**
 * Creates a watchdog. A healthy reader fetches or sends a heartbeat every few seconds. If it is silent while
 * Kafka answers other requests, it never recovers, so its process must end. The watchdog does not count time
 * during which `answers` rejects or the process was frozen.
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
  let hasReported = false;
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
      if (hasReported || silentMs() < SILENT_MS) return;
      try {
        await answers();
      } catch {
        last = clock.now().getTime();
        return;
      }
      if (silentMs() < SILENT_MS) return;
      hasReported = true;
      fatal(new Error(`The reader ${name} has been silent for ${SILENT_MS / 1000} s although Kafka answers`));
    },
  };
}

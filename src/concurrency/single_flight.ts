import { within } from "../clock.ts";

/** Runs a key's work only once for all concurrent callers in this process. */
export type SingleFlight<Outcome> = {
  /**
   * Runs `work`, or waits for the key's running work and shares its outcome. If the running work fails, one
   * of the waiting callers runs its own work. Throws the error of `work`, the error of `full` if
   * `mostWaiting` callers already wait, and the error of `late` if there is no outcome after `waitMs` ms.
   */
  run(
    key: string,
    work: (flight: Flight) => Promise<Outcome>,
  ): Promise<{ outcome: Outcome; shared: boolean }>;
};

/** For the running work: the `performance.now()` time at which the caller stops waiting. */
export type Flight = { waitsUntil: number };

type Settings = { mostWaiting: number; waitMs: number; full: () => Error; late: () => Error };

/** Returns a single flight without running work. Idle keys use no memory. */
export function createSingleFlight<Outcome>({
  mostWaiting,
  waitMs,
  full,
  late,
}: Settings): SingleFlight<Outcome> {
  type Running = { waiting: number; ended: Promise<{ outcome: Outcome } | undefined> };
  const running = new Map<string, Running>();
  return {
    async run(key, work) {
      const waitsUntil = performance.now() + waitMs;
      for (let before = running.get(key); before !== undefined; before = running.get(key)) {
        if (before.waiting >= mostWaiting) throw full();
        before.waiting += 1;
        const known = await within(Math.max(0, waitsUntil - performance.now()), before.ended, undefined);
        if (known !== undefined) return { outcome: known.outcome, shared: true };
        before.waiting -= 1;
        if (performance.now() >= waitsUntil) throw late();
      }
      const { promise: ended, resolve: end } = Promise.withResolvers<{ outcome: Outcome } | undefined>();
      running.set(key, { waiting: 0, ended });
      try {
        const outcome = await work({ waitsUntil });
        end({ outcome });
        return { outcome, shared: false };
      } finally {
        running.delete(key);
        end(undefined);
      }
    },
  };
}

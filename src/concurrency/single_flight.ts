import { within } from "../clock.ts";

/** Does the work of one key once for all concurrent callers in this process. */
export type SingleFlight<Outcome> = {
  /**
   * Runs `work`, or waits for the work that is running for the key and shares its outcome. When that work
   * fails, one of the waiting callers runs its own. Throws what `work` throws, `full` when `mostWaiting` wait
   * already, and `late` when nothing is known `waitMs` after the call.
   */
  run(
    key: string,
    work: (flight: Flight) => Promise<Outcome>,
  ): Promise<{ outcome: Outcome; shared: boolean }>;
};

/** What the running work knows. `waitsUntil`: when its caller stops waiting, by `performance.now()`. */
export type Flight = { waitsUntil: number };

type Settings = { mostWaiting: number; waitMs: number; full: () => Error; late: () => Error };

/** Nothing running yet. A key with nothing running takes no room. */
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

import { within } from "../../clock.ts";

/** Has what goes by one name done once at a time, in this process. */
export type Turns<Outcome> = {
  /**
   * What `act` gives; or, when the same is being done, what that gave. A turn that came to nothing leaves the
   * name to one of those who wait. Throws what `act` throws; `full` when `most` wait already, and `late` when
   * the wait is over `waitMs` after the call.
   */
  take(name: string, act: (turn: Turn) => Promise<Outcome>): Promise<{ outcome: Outcome; shared: boolean }>;
};

/** A turn: `waitsUntil` is when who has it should wait no longer, by `performance.now()`. */
export type Turn = { waitsUntil: number };

type TurnsSettings = { most: number; waitMs: number; full: () => Error; late: () => Error };

/** Turns of this process. Waiting for one asks nothing of anybody. */
export function createTurns<Outcome>({ most, waitMs, full, late }: TurnsSettings): Turns<Outcome> {
  type Running = { waiting: number; ended: Promise<{ outcome: Outcome } | undefined> };
  const running = new Map<string, Running>();
  return {
    async take(name, act) {
      const waitsUntil = performance.now() + waitMs;
      for (let before = running.get(name); before !== undefined; before = running.get(name)) {
        if (before.waiting >= most) throw full();
        before.waiting += 1;
        const given = await within(Math.max(0, waitsUntil - performance.now()), before.ended, undefined);
        if (given !== undefined) return { outcome: given.outcome, shared: true };
        before.waiting -= 1;
        if (performance.now() >= waitsUntil) throw late();
      }
      const { promise: ended, resolve: end } = Promise.withResolvers<{ outcome: Outcome } | undefined>();
      running.set(name, { waiting: 0, ended });
      try {
        const outcome = await act({ waitsUntil });
        end({ outcome });
        return { outcome, shared: false };
      } finally {
        running.delete(name);
        end(undefined);
      }
    },
  };
}

import type { Clock } from "../clock.ts";
import { rateLimited } from "../errors.ts";
import { createPace, type Pace } from "./pace.ts";

/** Kinds of calls that have separate limits: changes, calls that end authority or access, and refreshes. */
export type ChangeKind = "changes" | "ends" | "refreshes";

/**
 * Rate limits for calls that change something, of each sign-in of a person and of each connection with an API
 * key. Calls that end something and refreshes have limits of their own, so other calls cannot prevent them.
 */
export type ChangeRates = {
  /** Counts a call of a sign-in or a connection. Throws `rate_limited` with `Retry-After` at the limit. */
  take(caller: string, kind: ChangeKind): void;
};

/** Returns rate limits of `perMinute` calls of each kind in this process. With 0, they refuse every call. */
export function createChangeRates({ perMinute, clock }: { perMinute: number; clock: Clock }): ChangeRates {
  const pace = () => createPace({ perMinute, clock });
  const paces: Record<ChangeKind, Pace> = { changes: pace(), ends: pace(), refreshes: pace() };
  return {
    take(caller, kind) {
      const { admitted, waitMs } = paces[kind].take(caller);
      if (!admitted) throw rateLimited("Too many calls that change something", waitMs);
    },
  };
}

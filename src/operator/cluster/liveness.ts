import { monitorEventLoopDelay } from "node:perf_hooks";
import type { WatchState } from "../metrics/operator_metrics.ts";

/** Whether a process in a cluster works. */
export type Liveness = {
  /** Takes note that the cluster has answered a request. */
  answered(): void;
  /** Whether a restart would not help. */
  isAlive(): boolean;
  stop(): void;
};

/** In milliseconds: silence of a watch, freshness of the cluster's last answer, lag of the event loop. */
type Limits = { silentMs: number; answeredMs: number; lagMs: number };

/** How long the event loop lagged since the last reset, on average, in nanoseconds; not a number before. */
type LoopDelay = Pick<ReturnType<typeof monitorEventLoopDelay>, "mean" | "enable" | "disable" | "reset">;

const LIMITS: Limits = { silentMs: 10 * 60_000, answeredMs: 60_000, lagMs: 5_000 };

/**
 * A process is not alive when a watch has long said nothing although the cluster answers other requests, or
 * when its event loop lags so much that its lease and its deadlines cannot be kept. Where the cluster is
 * away, a restart would not help.
 */
export function createLiveness(
  watches: () => readonly WatchState[],
  { silentMs, answeredMs, lagMs }: Limits = LIMITS,
  delay: LoopDelay = monitorEventLoopDelay({ resolution: 100 }),
): Liveness {
  delay.enable();
  let answeredAt = Number.NEGATIVE_INFINITY;

  function isSilent({ isSynced, activeAt }: WatchState): boolean {
    return isSynced && performance.now() - activeAt > silentMs;
  }

  return {
    answered() {
      answeredAt = performance.now();
    },
    isAlive() {
      const lag = delay.mean / 1e6;
      delay.reset();
      if (lag > lagMs) return false;
      const clusterAnswers = performance.now() - answeredAt < answeredMs;
      return !(clusterAnswers && watches().some(isSilent));
    },
    stop: () => void delay.disable(),
  };
}

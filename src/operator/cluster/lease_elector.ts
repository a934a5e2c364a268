import { pause } from "../../kubernetes/pause.ts";
import type { Logger } from "../../log.ts";
import type { Elector, Lead } from "../leadership/elector.ts";
import type { ClusterLease } from "./lease.ts";

/** In milliseconds: how long a lead is good that was not renewed, and how often that is tried. */
export type ElectorTimes = { renewMs: number; retryMs: number };

/** Others take the lease after 15 s: five seconds are left for work under way to end. */
const TIMES: ElectorTimes = { renewMs: 10_000, retryMs: 2_000 };

type Options = { lease: ClusterLease; log: Logger; times?: ElectorTimes };

/**
 * Leads while it holds a lease. Who cannot renew it in time has lost the lead, whatever the cluster says
 * later.
 */
export function createLeaseElector({ lease, log, times = TIMES }: Options): Elector {
  const { renewMs, retryMs } = times;

  function lead(since: number): Lead {
    const lost = new AbortController();
    const ended = new AbortController();
    let heldAt = since;
    let timer = setTimeout(expire, renewMs);

    function expire(): void {
      const leftMs = heldAt + renewMs - performance.now();
      if (leftMs > 0) {
        timer = setTimeout(expire, leftMs);
      } else {
        lost.abort();
      }
    }

    async function renew(): Promise<void> {
      try {
        const asked = performance.now();
        const result = await lease.hold();
        if (result === "held") heldAt = asked;
        if (result === "taken") lost.abort();
      } catch (error) {
        log.warn({ err: error }, "the lease could not be renewed");
      }
    }

    async function keepRenewing(): Promise<void> {
      const over = AbortSignal.any([lost.signal, ended.signal]);
      for (;;) {
        await pause(retryMs, over);
        if (over.aborted) return;
        await renew();
      }
    }

    const renewing = keepRenewing();
    return {
      lost: lost.signal,
      isHeld: () => !lost.signal.aborted && performance.now() - heldAt < renewMs,
      async release() {
        ended.abort();
        clearTimeout(timer);
        await renewing;
        await lease
          .release()
          .catch((error: unknown) => log.warn({ err: error }, "the lease could not be released"));
      },
    };
  }

  return {
    async acquire(signal) {
      while (!signal.aborted) {
        try {
          const asked = performance.now();
          if ((await lease.hold()) === "held") return lead(asked);
        } catch (error) {
          log.warn({ err: error }, "the lease could not be asked for");
        }
        await pause(retryMs, signal);
      }
      return undefined;
    },
  };
}

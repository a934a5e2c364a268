import type { CoordinationV1Api } from "@kubernetes/client-node";
import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { isStatus } from "../../kubernetes/cluster_error.ts";
import { pause } from "../../kubernetes/pause.ts";
import type { Logger } from "../../log.ts";
import type { Elector, Lead } from "../leader_terms.ts";

type LeaseCalls = Pick<
  CoordinationV1Api,
  "readNamespacedLease" | "createNamespacedLease" | "patchNamespacedLease"
>;

type LeaseOptions = {
  client: { coordination: LeaseCalls };
  namespace: string;
  name: string;
  /** No other process may ever have the same name. */
  holder: string;
  clock: Clock;
};

/**
 * Result of `hold`. `taken` means that another process holds the lease. `contended` means that another
 * process wrote to the lease during the attempt.
 */
type LeaseTry = "held" | "taken" | "contended";

type ClusterLease = {
  /** Acquires a free lease, or renews this process's lease. Rejects if the cluster does not answer. */
  hold(): Promise<LeaseTry>;
  /** Lets the next process acquire the lease immediately. Does nothing if this process does not hold it. */
  release(): Promise<void>;
};

/** How long a lease stays valid without a renewal. */
const LEASE_MS = 15_000;

const leaseObject = z.object({
  metadata: z.object({ resourceVersion: z.string() }),
  spec: z.object({ holderIdentity: z.string().optional(), leaseTransitions: z.int().optional() }).default({}),
});
type Live = z.infer<typeof leaseObject>;

/**
 * Creates a client of a lease. A holder counts as alive while the lease keeps changing. The client measures
 * this with the local clock, and ignores the times in the lease.
 */
export function createClusterLease({ client, namespace, name, holder, clock }: LeaseOptions): ClusterLease {
  const place = { namespace, name };
  let seen: { version: string; at: number } | undefined;

  async function read(): Promise<Live | undefined> {
    try {
      return leaseObject.parse(await client.coordination.readNamespacedLease(place));
    } catch (error) {
      if (isStatus(error, 404)) return undefined;
      throw error;
    }
  }

  /** Returns `false` if another process wrote the lease first. */
  async function write(spec: object, live: Live | undefined): Promise<boolean> {
    try {
      if (live === undefined) {
        await client.coordination.createNamespacedLease({ namespace, body: { metadata: place, spec } });
      } else {
        const metadata = { resourceVersion: live.metadata.resourceVersion };
        await client.coordination.patchNamespacedLease({ ...place, body: { metadata, spec } });
      }
      return true;
    } catch (error) {
      if (isStatus(error, 409) || isStatus(error, 404)) return false;
      throw error;
    }
  }

  /** Returns whether the lease has not changed for its full duration, so that its holder counts as dead. */
  function isLapsed({ metadata }: Live): boolean {
    const now = performance.now();
    if (seen?.version !== metadata.resourceVersion) seen = { version: metadata.resourceVersion, at: now };
    return now - seen.at >= LEASE_MS;
  }

  return {
    async hold() {
      const live = await read();
      const current = live?.spec.holderIdentity ?? "";
      const isOwn = current === holder;
      if (live !== undefined && !isOwn && current !== "" && !isLapsed(live)) return "taken";
      const now = microTime(clock.now());
      const isWritten = await write(
        {
          holderIdentity: holder,
          leaseDurationSeconds: LEASE_MS / 1000,
          renewTime: now,
          ...(!isOwn && { acquireTime: now, leaseTransitions: (live?.spec.leaseTransitions ?? 0) + 1 }),
        },
        live,
      );
      return isWritten ? "held" : "contended";
    },
    async release() {
      const live = await read();
      if (live?.spec.holderIdentity !== holder) return;
      await write({ holderIdentity: "", leaseDurationSeconds: 1, renewTime: microTime(clock.now()) }, live);
    },
  };
}

function microTime(time: Date): string {
  return time.toISOString().replace("Z", "000Z");
}

/** How long leadership lasts without a renewal, and the pause between renewals, in milliseconds. */
type ElectorTimes = { renewMs: number; retryMs: number };

/** Other processes take over the lease after 15 s. So work in progress has 5 s to stop. */
const TIMES: ElectorTimes = { renewMs: 10_000, retryMs: 2_000 };

type Options = { lease: ClusterLease; log: Logger; times?: ElectorTimes };

/** Creates an elector that leads while it holds the lease, and at most `renewMs` after the last renewal. */
export function createLeaseElector({ lease, log, times = TIMES }: Options): Elector {
  const { renewMs, retryMs } = times;

  function lead(since: number): Lead {
    const lost = new AbortController();
    const ended = new AbortController();
    let heldAt = since;
    let timer: NodeJS.Timeout | undefined;

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

    expire();
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
          log.warn({ err: error }, "the lease could not be acquired");
        }
        await pause(retryMs, signal);
      }
      return undefined;
    },
  };
}

import type { LiveDelegation } from "../operator_calls.ts";
import type { ApiResult } from "./api_transport.ts";
import type { OperatorContext } from "./context.ts";
import { type AnyObject, type Delegation, keyOf, keyText } from "./kinds.ts";
import { type HeldRecord, type SweepRecord, sweep } from "./orphans.ts";
import { conditionOf } from "./reconcile/conditions.ts";
import type { Reason } from "./reconcile/ready_reasons.ts";

import { allObjects, isServed } from "./resources.ts";

/** Stores the result of the last sweep. */
export type SweepRecords = {
  read(): Promise<HeldRecord | undefined>;
  /** Stores a record. With `isTaken`, also removes the confirmation that was read: it is valid only once. */
  write(record: SweepRecord, options: { isTaken: boolean }): Promise<void>;
};

/**
 * When to sweep, and how long orphans remain, in milliseconds. Without `graceMs`, orphans are only listed.
 */
export type SweepOptions = {
  records: SweepRecords;
  graceMs: number | undefined;
  /** The namespaces that the operator watches. If absent, it watches all namespaces. */
  watched?: readonly string[] | undefined;
  firstMs?: number;
  everyMs?: number;
};

const FIRST_MS = 60_000;
const EVERY_MS = 10 * 60_000;
const REASON = "Its object is gone from the cluster";

type SweepWorld = Pick<OperatorContext, "resources" | "api" | "clock" | "externalIdOf" | "log" | "metrics">;

/**
 * Regularly lists delegations whose object disappeared before they ended, for example by a restore. Revokes
 * them after the grace period. Acts only while `isHeld` returns true and the clocks agree. Logs failures and
 * tries again in the next sweep.
 */
export function startSweeper(
  context: SweepWorld,
  isHeld: () => boolean,
  { records, graceMs, watched, firstMs = FIRST_MS, everyMs = EVERY_MS }: SweepOptions,
): Repetition {
  const { resources, api, clock, log } = context;
  let isStopped = false;

  async function listLive(): Promise<ApiResult<LiveDelegation[]>> {
    const all: LiveDelegation[] = [];
    let after: string | null = null;
    do {
      const { value, failure }: Awaited<ReturnType<typeof api.listDelegations>> =
        await api.listDelegations(after);
      if (failure !== undefined) return { failure };
      all.push(...value.delegations);
      after = value.next;
    } while (after !== null);
    return { value: all };
  }

  async function once(): Promise<void> {
    const former = await records.read();
    const [leadership, live] = [await api.leadership(), await listLive()];
    const failure = leadership.failure ?? live.failure;
    if (leadership.value === undefined || live.value === undefined) {
      log.info({ failure }, "the search for delegations without an object failed");
      return;
    }
    const now = clock.agreed();
    if (now === undefined) {
      log.info("the search for delegations without an object waits until the clocks agree");
      return;
    }
    const objects = allObjects(resources);
    const { record, revoke } = sweep({
      now,
      epoch: leadership.value.epoch,
      formerEpoch: leadership.value.former_epoch,
      former,
      live: live.value,
      watched,
      present: new Set(objects.filter(({ kind }) => kind === "Delegation").map(context.externalIdOf)),
      isEmpty: objects.length === 0,
      graceMs,
    });
    if (!isHeld() || isStopped) return;
    context.metrics.swept({ state: record.state, orphans: record.items.length + (record.more ?? 0) });
    await records.write(record, { isTaken: former?.confirmed !== undefined });
    if (record.state === "held") log.warn({ orphans: record.items.length }, record.why ?? "");
    for (const externalId of revoke) await end(externalId);
  }

  async function end(externalId: string): Promise<void> {
    if (!isHeld() || isStopped) return;
    const { failure } = await api.revokeDelegation(externalId, { reason: REASON, isGone: true });
    log.warn({ delegation: externalId, failure }, "a delegation without an object is revoked");
  }

  const sweeps = repeat(once, {
    firstMs,
    everyMs,
    onError: (error) => log.warn({ err: error }, "the search for delegations without an object failed"),
  });
  return {
    async stop() {
      isStopped = true;
      await sweeps.stop();
    },
  };
}

type Repetition = {
  /** Resolves when the work in progress has finished. */
  stop(): Promise<void>;
};

/** Runs `work` after `firstMs`, and again `everyMs` after each run ends, also after a failure. */
function repeat(
  work: () => Promise<void>,
  { firstMs, everyMs, onError }: { firstMs: number; everyMs: number; onError(error: unknown): void },
): Repetition {
  let isStopped = false;
  let timer = setTimeout(run, firstMs);
  let running = Promise.resolve();

  function run(): void {
    running = work()
      .catch(onError)
      .then(() => {
        if (!isStopped) timer = setTimeout(run, everyMs);
      });
  }

  return {
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}

/** How long to keep Delegations that have ended, and how to delete them. Times are in milliseconds. */
export type EndedOptions = {
  ttlMs: number;
  /** Deletes an object as a user would, if it still has the same uid. */
  remove(object: AnyObject): Promise<void>;
  everyMs?: number | undefined;
};

const ENDED_EVERY_MS = 60_000;
/**
 * The condition whose last transition is the end of a Delegation, by the reason of its condition Ready. If
 * the certificate has expired, its expiry is the end instead.
 */
const ENDING: Partial<Record<Reason, string>> = { Denied: "Denied", Revoked: "Revoked", Expired: "Approved" };
/** Labels and annotations of tools that would recreate a deleted object and so request approval again. */
const OWNERS = [
  "argocd.argoproj.io/tracking-id",
  "kustomize.toolkit.fluxcd.io/name",
  "helm.toolkit.fluxcd.io/name",
  "meta.helm.sh/release-name",
  "config.k8s.io/owning-inventory",
];
const KEEP = "deputize.io/keep";

/** Returns when a Delegation ended permanently; `undefined` if it has not ended or the time is unknown. */
export function endedAt({ metadata, status }: Delegation): Date | undefined {
  const reason = conditionOf(status, "Ready")?.reason;
  if (status.observedGeneration !== metadata.generation) return undefined;
  if (reason === "Expired" && status.certStatus === "Expired") return timeOf(status.expiresAt);
  const ending = conditionOf(status, ENDING[reason as Reason] ?? "");
  const isSo = reason === "Expired" ? ending?.status === "False" : ending?.status === "True";
  return isSo ? timeOf(ending?.lastTransitionTime) : undefined;
}

function timeOf(text: string | undefined): Date | undefined {
  const time = new Date(text ?? "");
  return Number.isNaN(time.getTime()) ? undefined : time;
}

/**
 * Returns whether the operator may delete an ended Delegation: no other tool manages it, no annotation keeps
 * it.
 */
export function isRemovable({ metadata }: Delegation): boolean {
  const { labels, annotations, deletionTimestamp } = metadata;
  const marks = { ...labels, ...annotations };
  return deletionTimestamp === undefined && marks[KEEP] !== "true" && !OWNERS.some((name) => name in marks);
}

/**
 * Deletes Delegations that ended longer than `ttlMs` ago. Acts only while `isHeld` returns true and the
 * clocks agree. Retries failed deletions in the next round.
 */
export function startEndedRemoval(
  { resources, clock, log }: Pick<OperatorContext, "resources" | "clock" | "log">,
  isHeld: () => boolean,
  { ttlMs, remove, everyMs = ENDED_EVERY_MS }: EndedOptions,
): Repetition {
  async function once(): Promise<void> {
    const served = resources.list("Delegation").filter((object) => isServed(resources, object));
    for (const object of served) {
      const ended = endedAt(object);
      const now = clock.agreed();
      if (now === undefined) return;
      if (ended === undefined || now.getTime() - ended.getTime() < ttlMs) continue;
      if (!isRemovable(object)) continue;
      if (!isHeld()) return;
      await remove(object);
      log.info({ object: keyText(keyOf(object)), ended }, "a delegation that has ended is deleted");
    }
  }

  return repeat(once, {
    firstMs: everyMs,
    everyMs,
    onError: (error) => log.warn({ err: error }, "the deletion of ended delegations failed"),
  });
}

import type { OperatorContext } from "../context.ts";
import { type AnyObject, type Delegation, keyOf, keyText } from "../kinds.ts";
import { conditionOf } from "../status/conditions.ts";
import type { Reason } from "../status/reasons.ts";
import { type Repetition, repeat } from "./repeat.ts";

/** How long Delegations that have ended are kept, and how one is deleted. Times in milliseconds. */
export type EndedOptions = {
  ttlMs: number;
  /** Deletes an object as people do, if it is still this one. */
  remove(object: AnyObject): Promise<void>;
  everyMs?: number | undefined;
};

const EVERY_MS = 60_000;
/** The one that says when an object for a reason ended, if its certificate does not. */
const ENDING: Partial<Record<Reason, string>> = { Denied: "Denied", Revoked: "Revoked", Expired: "Approved" };
/** Who gives an object such a mark would create it again, and it would be asked for again. */
const OWNERS = [
  "argocd.argoproj.io/tracking-id",
  "kustomize.toolkit.fluxcd.io/name",
  "helm.toolkit.fluxcd.io/name",
  "meta.helm.sh/release-name",
  "config.k8s.io/owning-inventory",
];
const KEEP = "deputize.io/keep";

/** When a Delegation ended for good, as its status says; `undefined`: it has not, or nobody knows. */
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

/** Whether a Delegation may be deleted when its time is over: not what somebody else declares or keeps. */
export function isRemovable({ metadata }: Delegation): boolean {
  const { labels, annotations, deletionTimestamp } = metadata;
  const marks = { ...labels, ...annotations };
  return deletionTimestamp === undefined && marks[KEEP] !== "true" && !OWNERS.some((name) => name in marks);
}

/**
 * While `isHeld` says that this process leads: deletes Delegations that ended longer ago than the time given.
 * What cannot be deleted is tried again next time.
 */
export function startEndedRemoval(
  { resources, clock, log }: Pick<OperatorContext, "resources" | "clock" | "log">,
  isHeld: () => boolean,
  { ttlMs, remove, everyMs = EVERY_MS }: EndedOptions,
): Repetition {
  async function once(): Promise<void> {
    for (const object of resources.list("Delegation")) {
      const ended = endedAt(object);
      if (ended === undefined || clock.now().getTime() - ended.getTime() < ttlMs) continue;
      if (!isRemovable(object)) continue;
      if (!isHeld()) return;
      await remove(object);
      log.info({ object: keyText(keyOf(object)), ended }, "a delegation that has ended is deleted");
    }
  }

  return repeat(once, {
    firstMs: everyMs,
    everyMs,
    onError: (error) => log.warn({ err: error }, "delegations that have ended were not all deleted"),
  });
}

import type { ApiFailure, ApiResult } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import { type AnyObject, FINALIZER } from "../kinds.ts";
import type { Visit } from "../queue.ts";
import { readiness } from "./conditions.ts";
import { FORGOTTEN_ADVICE, mayBeInForce } from "./delegation_expiry.ts";
import type { StatusReason } from "./ready_reasons.ts";
import { keptStatus, report } from "./report_status.ts";

/** After this many consecutive failures, a deletion counts as stalled. Retries continue every 30 s. */
export const STALLED_AFTER_FAILURES = 20;

/** How often to ask again about a deleted Delegation that the service does not know. */
const FORGOTTEN_RECHECK_MS = 30_000;

type Ending = {
  dependents: AnyObject[];
  /** Revokes or releases what the object declares. */
  release(): Promise<ApiResult<unknown>>;
  failures: number;
};

/**
 * Lets Kubernetes remove a deleted object once no object refers to it and its release has succeeded. Keeps a
 * Delegation that the service does not know while its status shows no end of its authority: the service may
 * know it under another cluster id.
 */
export async function terminate(context: OperatorContext, object: AnyObject, ending: Ending): Promise<Visit> {
  if (!object.metadata.finalizers.includes(FINALIZER)) return {};
  const { dependents } = ending;
  if (dependents.length > 0) {
    await reportEnding(context, object, { reason: "DependentsExist", message: waitsFor(dependents) }, false);
    return {};
  }
  if (!(await context.resources.isCurrent(object))) return {};
  const { failure } = await ending.release();
  const isReleased = failure === undefined || hasNothingToRelease(failure);
  const isForgotten = failure !== undefined && isReleased && hasAuthority(object, context.clock.now());
  if (isForgotten) {
    const message = `The service does not know this Delegation, so nothing was revoked. ${FORGOTTEN_ADVICE}`;
    await reportEnding(context, object, { reason: "ExternalMissing", message }, true);
    return { afterMs: FORGOTTEN_RECHECK_MS };
  }
  if (isReleased) {
    await context.resources.setFinalizer(object, false);
    return {};
  }
  if (failure.kind !== "superseded") {
    const stalled = ending.failures + 1 >= STALLED_AFTER_FAILURES;
    const message = `Not revoked or released yet: ${failure.message}`;
    await reportEnding(context, object, { reason: "Terminating", message }, stalled);
  }
  const notBeforeMs = failure.kind === "unavailable" ? failure.retryAfterMs : undefined;
  return { retry: true, urgent: true, ...(notBeforeMs === undefined ? {} : { notBeforeMs }) };
}

/**
 * Returns whether there is nothing to release. Either the API does not know the object, or the account's
 * owner no longer accepts the namespace and keeps what it registered.
 */
export function hasNothingToRelease(failure: ApiFailure): boolean {
  if (failure.kind !== "refused") return false;
  return failure.code === "not_found" || failure.code === "namespace_not_bound";
}

function hasAuthority(object: AnyObject, now: Date): boolean {
  return object.kind === "Delegation" && mayBeInForce(object, now);
}

async function reportEnding(
  context: OperatorContext,
  object: AnyObject,
  verdict: StatusReason,
  stalled: boolean,
): Promise<void> {
  const facts = readiness(verdict).map((fact) =>
    fact.type === "Stalled" && stalled ? { ...fact, status: "True" as const } : fact,
  );
  await report(context, object, keptStatus(object, facts, context.clock.now()), verdict);
}

const NAMED_DEPENDENTS = 5;

function waitsFor(dependents: AnyObject[]): string {
  const named = dependents.slice(0, NAMED_DEPENDENTS).map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  const more = dependents.length - named.length;
  return `Waits until these objects are gone: ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

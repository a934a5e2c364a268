import { isDeepStrictEqual } from "node:util";
import { type ClusterError, ClusterRefused } from "../../kubernetes/cluster_error.ts";
import type { ApiFailure } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import {
  type AnyObject,
  type CommonStatus,
  FINALIZER,
  FINALIZER_REMOVED,
  keyOf,
  keyText,
  reconcileRequest,
} from "../kinds.ts";
import type { Visit } from "../queue.ts";
import {
  conditionOf,
  definedOnly,
  type Fact,
  isAtRest,
  isOutage,
  readiness,
  reasonOf,
  type Stated,
  visitAfter,
  withFacts,
} from "./conditions.ts";
import { progressOf, recheckOf, type StatusReason } from "./ready_reasons.ts";

type Reporter = Pick<OperatorContext, "resources" | "log">;

/** Writes a changed status. If the reason is new, records it also as an event and in the log. */
export async function report(
  { resources, log }: Reporter,
  object: AnyObject,
  found: Stated<CommonStatus>,
  verdict: StatusReason,
): Promise<void> {
  const { reason, message } = verdict;
  const status = definedOnly({ ...found, lastHandledReconcileAt: reconcileRequest(object) });
  if (sameStatus(ownPart(object.status), status)) return;
  await resources.writeStatus(object, status);
  if (conditionOf(object.status, "Ready")?.reason === reason) return;
  log.info({ object: keyText(keyOf(object)), reason }, message);
  const type = progressOf(verdict) === "stuck" ? "Warning" : "Normal";
  resources.recordEvent(object, { type, reason, message });
}

/** Returns the object's former status with these facts replaced. */
export function keptStatus<O extends AnyObject>(
  { metadata: { generation }, status }: O,
  facts: readonly Fact[],
  now: Date,
): Stated<CommonStatus> {
  const conditions = withFacts(status.conditions ?? [], facts, { generation, now });
  return { ...ownPart(status), observedGeneration: generation, conditions };
}

/**
 * Reports a failed API call in the object's status. An outage does not change the status of an object that
 * needs no further work.
 */
export async function reportFailure(
  context: OperatorContext,
  object: AnyObject,
  failure: ApiFailure,
  statusOf: (verdict: StatusReason) => Stated<CommonStatus>,
  verdict = reasonOf(failure),
): Promise<Visit> {
  const mayStay = isOutage(failure) && isAtRest(object);
  if (failure.kind !== "superseded" && !mayStay) {
    await report(context, object, statusOf(verdict), verdict);
  }
  return visitAfter(verdict, failure);
}

function ownPart(status: AnyObject["status"]): CommonStatus {
  const { approval: _, ...own } = { approval: undefined, ...status };
  return own;
}

/**
 * Reports in an object's status that the cluster does not carry out a necessary write. If the cluster does
 * not write this status either, records an event instead.
 */
export async function reportFailedWrite(
  context: OperatorContext,
  object: AnyObject,
  failed: ClusterError,
  statusOf: (verdict: StatusReason) => Stated<CommonStatus> = (verdict) =>
    keptStatus(object, readiness(verdict), context.clock.now()),
): Promise<Visit> {
  const verdict: StatusReason = { reason: "ClusterRefused", message: sentenceOf(failed) };
  try {
    await report(context, object, statusOf(verdict), verdict);
  } catch (error) {
    context.log.warn({ object: keyText(keyOf(object)), err: error }, verdict.message);
    context.resources.recordEvent(object, { type: "Warning", ...verdict });
  }
  return failed instanceof ClusterRefused ? { afterMs: recheckOf(verdict.reason) ?? 0 } : { retry: true };
}

const NOT_SELECTED =
  "The operator does not serve this namespace, because the namespace's labels do not match the operator's selector. Ask an administrator to label it. If you delete this object, its authority ends";

/** Reports in an object's status that the operator does not serve its namespace. */
export async function reportNotSelected(context: OperatorContext, object: AnyObject): Promise<Visit> {
  const verdict: StatusReason = { reason: "NamespaceNotSelected", message: NOT_SELECTED };
  const status = keptStatus(object, readiness(verdict), context.clock.now());
  await report(context, object, status, verdict);
  return {};
}

function sentenceOf(failed: ClusterError): string {
  const { verb, resource, status, reason } = failed;
  if (!(failed instanceof ClusterRefused)) {
    return `The cluster does not ${verb} ${resource}: ${status ?? ""} ${reason}. The operator tries again. If this lasts, look for an admission webhook that does not answer`;
  }
  const { quota } = failed;
  const what = `The cluster refuses to ${verb} ${resource}: ${status ?? ""} ${reason}`;
  if (quota !== undefined) {
    return `${what}. The quota ${quota} is used up: raise it, or delete objects that are not needed`;
  }
  if (reason === FINALIZER_REMOVED) {
    return `An admission policy of the cluster removes the finalizer ${FINALIZER}. Exempt ${resource} from the policy, because the operator registers nothing that it could not revoke later`;
  }
  if (status === 403) return `${what}. The operator's role or an admission policy does not allow it`;
  return `${what}. The cluster rejects this change, for example because the object is immutable`;
}

function sameStatus(left: CommonStatus, right: CommonStatus): boolean {
  return isDeepStrictEqual(definedOnly(left), definedOnly(right));
}

import { isDeepStrictEqual } from "node:util";
import type { ClusterRefused } from "../../kubernetes/cluster_error.ts";
import type { ApiFailure } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import { type AnyObject, type CommonStatus, keyOf, keyText, reconcileRequest } from "../kinds.ts";
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

/**
 * Writes a status, once, when it says anything new; then reports a new reason as an event and in the log. An
 * unchanged status writes nothing.
 */
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

/** The status of which all that was known stays, but for these facts. */
export function keptStatus<O extends AnyObject>(
  { metadata: { generation }, status }: O,
  facts: readonly Fact[],
  now: Date,
): Stated<CommonStatus> {
  const conditions = withFacts(status.conditions ?? [], facts, { generation, now });
  return { ...ownPart(status), observedGeneration: generation, conditions };
}

/**
 * Reports that the API failed, by the status that this means. An outage leaves the status of an object at
 * rest as it is.
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

/** A status without what people write. */
function ownPart(status: AnyObject["status"]): CommonStatus {
  const { approval: _, ...own } = { approval: undefined, ...status };
  return own;
}

/**
 * Says at an object that the cluster refuses a write that it needs, or, when it refuses that too, as an
 * event.
 */
export async function reportRefusedWrite(
  context: OperatorContext,
  object: AnyObject,
  refused: ClusterRefused,
): Promise<Visit> {
  const verdict: StatusReason = { reason: "ClusterRefused", message: sentenceOf(refused) };
  try {
    await report(context, object, keptStatus(object, readiness(verdict), context.clock.now()), verdict);
  } catch (error) {
    context.log.warn({ object: keyText(keyOf(object)), err: error }, verdict.message);
    context.resources.recordEvent(object, { type: "Warning", ...verdict });
  }
  return { afterMs: recheckOf(verdict.reason) ?? 0 };
}

function sentenceOf({ verb, resource, status, reason, quota }: ClusterRefused): string {
  const what = `The cluster refuses to ${verb} ${resource}: ${status ?? ""} ${reason}`;
  if (quota !== undefined) {
    return `${what}. The quota ${quota} is used up: raise it, or delete what is not needed`;
  }
  if (status === 403) return `${what}. The operator's role or an admission policy does not allow it`;
  return `${what}. The object cannot be changed so, as where it is immutable`;
}

/** Whether two statuses say the same, so that nothing needs to be written. */
function sameStatus(left: CommonStatus, right: CommonStatus): boolean {
  return isDeepStrictEqual(definedOnly(left), definedOnly(right));
}

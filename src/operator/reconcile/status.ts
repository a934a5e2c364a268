import { isDeepStrictEqual } from "node:util";
import type { ClusterRefused } from "../../kubernetes/cluster_error.ts";
import type { OperatorContext } from "../context.ts";
import {
  type AnyObject,
  type CommonStatus,
  type Condition,
  keyOf,
  keyText,
  reconcileRequest,
} from "../kinds.ts";
import type { Visit } from "../queue.ts";
import { conditionOf, definedOnly, readiness, withFacts } from "./conditions.ts";
import { progressOf, recheckOf, type StatusReason } from "./reasons.ts";

type Reporter = Pick<OperatorContext, "resources" | "log">;

/**
 * Writes a status, once, when it says anything new; then reports a new reason as an event and in the log. An
 * unchanged status writes nothing.
 */
export async function report(
  { resources, log }: Reporter,
  object: AnyObject,
  found: CommonStatus & { conditions: Condition[] },
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
  const { generation } = object.metadata;
  const { approval: _, ...status } = { approval: undefined, ...object.status };
  const at = { generation, now: context.clock.now() };
  const conditions = withFacts(status.conditions ?? [], readiness(verdict), at);
  try {
    await report(context, object, { ...status, observedGeneration: generation, conditions }, verdict);
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

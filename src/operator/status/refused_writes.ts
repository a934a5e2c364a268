import type { ClusterRefused } from "../../kubernetes/cluster_error.ts";
import type { OperatorContext } from "../context.ts";
import { type AnyObject, keyOf, keyText } from "../kinds.ts";
import type { Visit } from "../queue/queue.ts";
import { readiness, withFacts } from "./conditions.ts";
import { recheckOf, type StatusReason } from "./reasons.ts";
import { report } from "./report.ts";

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

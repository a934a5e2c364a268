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
import { progressOf, recheckOf, type StatusReason } from "./reasons.ts";

/** A condition as a reconciler states it. Without a reason: the type's own name, as for what is simply so. */
export type Fact = { type: string; status: Condition["status"]; reason?: string; message?: string };

const MAX_MESSAGE_LENGTH = 2048;

/** The facts Ready, Reconciling and Stalled (kstatus) that a verdict means. */
export function readiness(verdict: StatusReason): Fact[] {
  const { reason, message } = verdict;
  const progress = progressOf(verdict);
  return [
    { type: "Ready", status: progress === "done" ? "True" : "False", reason, message },
    { type: "Reconciling", status: progress === "waiting" ? "True" : "False", reason },
    { type: "Stalled", status: progress === "stuck" ? "True" : "False", reason },
  ];
}

/**
 * Conditions of an object at `generation`: the facts in their order, then what `previous` holds of other
 * types. A transition time changes only together with the status it belongs to.
 */
export function withFacts(
  previous: readonly Condition[],
  facts: readonly Fact[],
  { generation, now }: { generation: number; now: Date },
): Condition[] {
  const stated = facts.map((fact): Condition => {
    const before = previous.find(({ type }) => type === fact.type);
    return {
      type: fact.type,
      status: fact.status,
      reason: fact.reason ?? fact.type,
      message: (fact.message ?? "").slice(0, MAX_MESSAGE_LENGTH),
      observedGeneration: generation,
      lastTransitionTime: before?.status === fact.status ? before.lastTransitionTime : now.toISOString(),
    };
  });
  const types = new Set(facts.map(({ type }) => type));
  return [...stated, ...previous.filter(({ type }) => !types.has(type))];
}

/** The condition of a type; `undefined` when it was never stated. */
export function conditionOf(status: CommonStatus, type: string): Condition | undefined {
  return status.conditions?.find((condition) => condition.type === type);
}

/** Whether a condition was stated and is True. */
export function isTrue(status: CommonStatus, type: string): boolean {
  return conditionOf(status, type)?.status === "True";
}

/** The status without members that are undefined, which do not exist in YAML. */
export function definedOnly<T extends object>(status: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(status).filter(([, value]) => value !== undefined)) as T;
}

/** Whether two statuses say the same, so that nothing needs to be written. */
function sameStatus(left: CommonStatus, right: CommonStatus): boolean {
  return isDeepStrictEqual(definedOnly(left), definedOnly(right));
}

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

import { isDeepStrictEqual } from "node:util";
import type { CommonStatus, Condition } from "../kinds.ts";
import { progressOf, type StatusReason } from "./reasons.ts";

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
export function sameStatus(left: CommonStatus, right: CommonStatus): boolean {
  return isDeepStrictEqual(definedOnly(left), definedOnly(right));
}

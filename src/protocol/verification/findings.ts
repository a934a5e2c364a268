import type { Violation } from "../violations.ts";
import type { Check } from "./evidence.ts";
import type { RuleKind } from "./rules.ts";
import type { Step } from "./steps.ts";

/** The first step that does not hold, and where it stands. */
export type Finding = {
  at: number;
  violation: Violation;
};

/** The first violation in order, of rules of one kind when given. */
export function firstViolation(steps: readonly Step[], kind?: RuleKind): Finding | undefined {
  for (const [at, step] of steps.entries()) {
    const violation = kind === undefined || step.kind === kind ? step.check() : undefined;
    if (violation !== undefined) return { at, violation };
  }
  return undefined;
}

/** Whether nothing that is known speaks against the evidence, whatever it is allowed. */
export function isSound(steps: readonly Step[]): boolean {
  return firstViolation(steps, "evidence") === undefined;
}

/** The steps of one rule that come before anything that is known to be violated. */
export function reached(steps: readonly Step[], name: string): Step[] {
  const end = firstViolation(steps)?.at ?? steps.length;
  return steps.filter((step, at) => step.name === name && at < end);
}

/**
 * Every rule in order with its outcome, given where the first violation stands. Rules after it count as
 * passed only where they were held against a genuine proof all the same.
 */
export function listChecks(steps: readonly Step[], end: number, genuine: boolean): Check[] {
  const outcomes = new Map<string, Check["outcome"]>();
  for (const [at, { name, kind }] of steps.entries()) {
    const passed = at < end || (genuine && kind === "evidence");
    const outcome = at === end ? "failed" : passed ? "passed" : "not_reached";
    const before = outcomes.get(name);
    if (before === undefined || before === "passed" || outcome === "failed") outcomes.set(name, outcome);
  }
  return [...outcomes].map(([name, outcome]) => ({ name, outcome }));
}

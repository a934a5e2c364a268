import type { Violation } from "../violations.ts";
import type { Check } from "./evidence.ts";
import type { Rule, Step } from "./rules.ts";

/** What the rules found about one bundle so far. */
export type Findings = {
  /** All steps of a rule. */
  of(rule: Rule): Step[];
  /** The steps of a rule that come before the first violation. */
  reached(rule: Rule): Step[];
  /** Takes in what was looked up for a step. */
  add(step: Step | undefined, violation: Violation | undefined): void;
  /** Whether nothing speaks against the evidence, whatever it is allowed. */
  isSound(): boolean;
  /** The first violation in order, if there is any. */
  first(): Violation | undefined;
  /** The steps of a rule up to the first violation, including it. */
  consulted(rule: Rule): Step[];
  /**
   * Every rule in order with its outcome. Rules after the first violation count as passed only where they
   * were evaluated all the same: those about the evidence, when it is sound.
   */
  checks(): Check[];
};

/**
 * Evaluates each rule that needs no lookup, once: in order up to the first violation, and after it those
 * about the evidence. Nothing more is evaluated once the evidence is not sound.
 */
export function evaluateRules(steps: readonly Step[]): Findings {
  let end = steps.length;
  let first: Violation | undefined;
  let sound = true;

  function add(step: Step | undefined, violation: Violation | undefined): void {
    if (step === undefined || violation === undefined) return;
    if (step.kind === "evidence") sound = false;
    const at = steps.indexOf(step);
    if (at >= end) return;
    end = at;
    first = violation;
  }

  for (const step of steps) {
    if (!sound) break;
    if (first === undefined || step.kind === "evidence") add(step, step.check?.());
  }

  return {
    of: (rule) => steps.filter(({ name }) => name === rule.name),
    reached: (rule) => steps.filter(({ name }, at) => name === rule.name && at < end),
    add,
    isSound: () => sound,
    first: () => first,
    consulted: (rule) => steps.filter(({ name }, at) => name === rule.name && at <= end),
    checks() {
      const outcomes = new Map<string, Check["outcome"]>();
      for (const [at, { name, kind }] of steps.entries()) {
        const passed = at < end || (sound && kind === "evidence");
        const outcome = at === end ? "failed" : passed ? "passed" : "not_reached";
        const before = outcomes.get(name);
        if (before === undefined || before === "passed" || outcome === "failed") outcomes.set(name, outcome);
      }
      return [...outcomes].map(([name, outcome]) => ({ name, outcome }));
    },
  };
}

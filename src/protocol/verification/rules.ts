import type { DelegationCert } from "../documents/certificate.ts";
import { checkBase64 } from "../encoding/base64.ts";
import { ProtocolError } from "../encoding/errors.ts";
import type { Violation, ViolationCode } from "../violations.ts";
import type { Check, Evidence } from "./evidence.ts";

/** The question that a rule answers: is the evidence good, or does good evidence allow the request? */
export type RuleKind = "evidence" | "permission";

/** A named rule. A rule without a `check` needs a lookup or a signature, which `verify_bundle.ts` does. */
export type Rule = { name: string; kind: RuleKind };

/** A pure rule about the whole bundle. */
export type BundleRule = Rule & {
  check?(evidence: Evidence): Violation | undefined;
};

/** A pure rule about one certificate and the issuer's own certificate, which a root certificate lacks. */
export type CertificateRule = Rule & {
  check?(evidence: Evidence, position: CertificatePosition): Violation | undefined;
};

/** One rule, applied to a bundle or to one certificate in it. Steps follow the order of wire format §8. */
export type Step = Rule & {
  certificate?: number;
  check?: (() => Violation | undefined) | undefined;
};

type CertificatePosition = {
  index: number;
  certificate: DelegationCert;
  parent: DelegationCert | undefined;
};

/** Creates a violation that concerns the whole bundle, or the certificate at a position. */
export function violation(code: ViolationCode, detail: string, certificate?: number): Violation {
  return certificate === undefined ? { code, detail } : { code, detail, certificate };
}

/** Returns whether `text` is canonical base64 of `length` bytes. */
export function hasBytes(text: string, length: number): boolean {
  try {
    checkBase64(text, length);
    return true;
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}

/**
 * Returns whether `text` has the length and padding of base64 for `length` bytes. This check is sufficient
 * only if the caller also compares `text` with a known string.
 */
export function hasEncodedLength(text: string, length: number): boolean {
  const padding = (3 - (length % 3)) % 3;
  const isPadded = text.endsWith("=".repeat(padding)) && !text.endsWith("=".repeat(padding + 1));
  return text.length === Math.ceil(length / 3) * 4 && isPadded;
}

/** Results so far of the rules for one bundle. */
export type Findings = {
  /** Returns all steps that apply a rule. */
  of(rule: Rule): Step[];
  /** Returns the steps that apply a rule and come before the first violation. */
  reached(rule: Rule): Step[];
  add(step: Step | undefined, violation: Violation | undefined): void;
  /** Returns whether no rule of kind `evidence` is violated so far. Ignores rules of kind `permission`. */
  isSound(): boolean;
  /** Returns the first violation in the order of the steps, if any. */
  first(): Violation | undefined;
  /** Returns the steps that apply a rule, up to and including the first violation. */
  consulted(rule: Rule): Step[];
  /**
   * Returns every rule in order with its outcome. A rule after the first violation counts as passed only if
   * it was evaluated. Only evidence rules are evaluated after a violation, while the evidence is sound.
   */
  checks(): Check[];
};

/**
 * Evaluates each rule that needs no lookup. After the first violation, evaluates only evidence rules. Stops
 * when an evidence rule is violated.
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

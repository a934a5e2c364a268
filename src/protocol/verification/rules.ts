import type { DelegationCert } from "../documents/certificate.ts";
import { checkBase64 } from "../encoding/base64.ts";
import { ProtocolError } from "../encoding/errors.ts";
import type { Violation, ViolationCode } from "../violations.ts";
import type { Check, Evidence } from "./evidence.ts";

/** Whether a rule asks if the evidence is good, or if good evidence is allowed what it asks for. */
export type RuleKind = "evidence" | "permission";

/**
 * A named rule. One without a check of its own is decided by what is looked up on the way
 * (`verify_bundle.ts`).
 */
export type Rule = { name: string; kind: RuleKind };

/** A rule about the bundle as a whole. Pure. */
export type BundleRule = Rule & {
  check?(evidence: Evidence): Violation | undefined;
};

/** A rule about each certificate, with the one that issued it; the root has none. Pure. */
export type CertificateRule = Rule & {
  check?(evidence: Evidence, position: CertificatePosition): Violation | undefined;
};

/** A rule applied to one bundle or to one certificate of it, in the order of wire format §8. */
export type Step = Rule & {
  /** Position in the chain, 0 for the leaf. */
  certificate?: number;
  check?: (() => Violation | undefined) | undefined;
};

/** A certificate and its place in its chain. */
type CertificatePosition = {
  index: number;
  certificate: DelegationCert;
  parent: DelegationCert | undefined;
};

/** A violation, of the bundle or of the certificate at a position. */
export function violation(code: ViolationCode, detail: string, certificate?: number): Violation {
  return certificate === undefined ? { code, detail } : { code, detail, certificate };
}

/** Whether `text` is canonical base64 of `length` bytes. */
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
 * Whether `text` has the length and the padding of base64 of `length` bytes: enough where its content is
 * compared with other text.
 */
export function hasEncodedLength(text: string, length: number): boolean {
  const padding = (3 - (length % 3)) % 3;
  const isPadded = text.endsWith("=".repeat(padding)) && !text.endsWith("=".repeat(padding + 1));
  return text.length === Math.ceil(length / 3) * 4 && isPadded;
}

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

import type { Constraint } from "../../src/protocol/constraints/constraints.ts";
import {
  type ConstraintContext,
  evaluateConstraints,
} from "../../src/protocol/constraints/evaluate_constraints.ts";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import {
  type Verification,
  type VerifyOptions,
  verifyBundle,
} from "../../src/protocol/verification/verify_bundle.ts";
import { NOW } from "./chains.ts";

/** A midnight in UTC, when constraints are held unless a test says otherwise. Unix seconds. */
export const MIDNIGHT_UTC = NOW - (NOW % 86_400);

/** Options of a verification at `NOW`. */
export function options(changes: Partial<VerifyOptions> = {}): VerifyOptions {
  return { now: NOW, ...changes };
}

/** A verification with its checks listed, to be compared with another one. */
export function listed({ checks, ...others }: Verification) {
  return { ...others, checks: checks() };
}

/** The code that a bundle is refused with, or `valid`. */
export async function code(bundle: ProofBundle, changes?: Partial<VerifyOptions>): Promise<string> {
  return (await verifyBundle(bundle, options(changes))).violation?.code ?? "valid";
}

/** The code that a constraint, or the first of several, is refused with, or `holds`. */
export async function outcome(
  constraint: Constraint | Constraint[],
  context: ConstraintContext = {},
  now: number = MIDNIGHT_UTC,
): Promise<string> {
  const constraints = Array.isArray(constraint) ? constraint : [constraint];
  return (await evaluateConstraints(constraints, { certId: "cert", now, context }))?.code ?? "holds";
}

/** The place that the request is from: degrees and metres. */
export function at(latitude: number, longitude: number, altitude_m?: number): ConstraintContext {
  return { latitude, longitude, altitude_m };
}

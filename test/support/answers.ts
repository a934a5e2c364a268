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

/** A midnight in UTC, in Unix seconds: the default time of {@link outcome}. */
export const MIDNIGHT_UTC = NOW - (NOW % 86_400);

export function options(changes: Partial<VerifyOptions> = {}): VerifyOptions {
  return { now: NOW, ...changes };
}

/** Returns a verification with its checks as a list, so that tests can compare it. */
export function listed({ checks, ...others }: Verification) {
  return { ...others, checks: checks() };
}

/** Returns the code of a bundle's violation, or `valid`. */
export async function code(bundle: ProofBundle, changes?: Partial<VerifyOptions>): Promise<string> {
  return (await verifyBundle(bundle, options(changes))).violation?.code ?? "valid";
}

/** Returns the code of the first violated constraint, or `holds`. */
export async function outcome(
  constraint: Constraint | Constraint[],
  context: ConstraintContext = {},
  now: number = MIDNIGHT_UTC,
): Promise<string> {
  const constraints = Array.isArray(constraint) ? constraint : [constraint];
  return (await evaluateConstraints(constraints, { certId: "cert", now, context }))?.code ?? "holds";
}

/** Returns the context of a request from this location, in degrees and meters. */
export function at(latitude: number, longitude: number, altitude_m?: number): ConstraintContext {
  return { latitude, longitude, altitude_m };
}

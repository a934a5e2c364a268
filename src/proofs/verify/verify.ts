import { ApiError } from "../../errors.ts";
import { isRequirableScope } from "../../protocol/documents/allowed_scopes.ts";
import type { Decided } from "../decide/decision.ts";
import { checkVerifier } from "../operation.ts";
import type { VerifyCall } from "./call.ts";
import { decideOnce, type OperationDeps } from "./decide_once.ts";
import { decideProof, readBundle } from "./decide_proof.ts";
import type { Repeats } from "./repeats.ts";

/** What verifying needs. */
export type VerifyDeps = OperationDeps & {
  /** What decisions that are given again may cost. */
  repeats: Repeats;
};

/**
 * Decides on a proof: challenge, root, signatures, rules, then the one statement that spends, charges and
 * records. An operation that has its decision gets it again. Throws `ApiError` when there is no decision; a
 * proof that is merely not allowed is a `deny`, not an error.
 */
export async function verifyProof(deps: VerifyDeps, call: VerifyCall): Promise<Decided> {
  const { operation, required_scope: requiredScope } = call.options;
  if (!isRequirableScope(requiredScope)) {
    throw new ApiError("invalid_scope", "required_scope: is not a scope, or is a wildcard");
  }
  if (operation !== undefined) {
    checkVerifier(operation, call.caller);
    const { caller } = call;
    const invocationId = operation.invocation_id;
    return deps.repeats.guard({ caller, invocationId }, () => decideOnce(deps, call, operation));
  }
  const decided = await decideProof(deps, call, await readBundle(deps, call));
  if (decided === undefined) throw new ApiError("invalid_challenge");
  return decided;
}

import { sqlState, UNIQUE_VIOLATION } from "../../db/errors.ts";
import { ApiError } from "../../errors.ts";
import { bundleHash, type ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import { encodeBase64 } from "../../protocol/encoding/base64.ts";
import type { Decided, Decision } from "../decide/decision.ts";
import type { Receipt } from "../decide/decision_receipt.ts";
import { contextOf, type Operation, operationHash } from "../operation.ts";
import type { VerifyCall } from "./call.ts";
import { decideProof, type ProofDeps, readBundle } from "./decide_proof.ts";
import type { FindRecorded, RecordedDecision } from "./recorded_decisions.ts";

/** What deciding on an operation needs. */
export type OperationDeps = ProofDeps & {
  /** Decisions that operations got before. */
  findRecorded: FindRecorded;
};

/** Codes of a proof that cannot be decided on any more; its operation may have been, with this very proof. */
const ENDED: readonly string[] = ["invalid_challenge", "invalid_proof"];
/** Codes of a proof that shows no authority for the operation. */
const REFUSED: readonly string[] = [...ENDED, "session_context_mismatch"];

/** Attempts at one operation that others decide on at the same moment. */
const MOST_ATTEMPTS = 3;

/**
 * Decides on an operation once. One that has its decision gets it again, with any genuine proof of it; when a
 * proof is refused, with the very proof that was decided on. Throws `invocation_conflict` when the invocation
 * was used for another operation, whatever proof is sent with the call.
 */
export async function decideOnce(
  deps: OperationDeps,
  call: VerifyCall,
  operation: Operation,
  attempt = 1,
): Promise<Decided> {
  let bundle: ProofBundle | undefined;
  try {
    bundle = await readBundle(deps, call);
    const decided = await decideProof(deps, call, bundle, boundContext(call, operation, bundle));
    if (decided !== undefined) return decided;
  } catch (error) {
    if (error instanceof ApiError && REFUSED.includes(error.code)) {
      return answerRefused(deps, call, operation, { refusal: error, bundle });
    }
    if (sqlState(error) !== UNIQUE_VIOLATION) throw error;
  }
  const recorded = await deps.findRecorded(call.caller, operation.invocation_id);
  if (recorded !== undefined) return replay(recorded, call, operation);
  if (attempt === MOST_ATTEMPTS) throw new ApiError("unavailable", "The operation is being decided on");
  return decideOnce(deps, call, operation, attempt + 1);
}

/** What the proof must be bound to, in base64. Throws `session_context_mismatch` when it cannot be. */
function boundContext({ options }: VerifyCall, operation: Operation, bundle: ProofBundle): string {
  if (operation.agent_id !== bundle.agent_id) {
    throw new ApiError("session_context_mismatch", "operation.agent_id: names another agent");
  }
  return encodeBase64(contextOf(operation, options.required_scope));
}

async function answerRefused(
  { findRecorded }: OperationDeps,
  call: VerifyCall,
  operation: Operation,
  { refusal, bundle }: { refusal: ApiError; bundle: ProofBundle | undefined },
): Promise<Decided> {
  const recorded = await findRecorded(call.caller, operation.invocation_id);
  if (recorded === undefined) throw refusal;
  const again = replay(recorded, call, operation);
  const isSame = bundle !== undefined && hashOf(bundle) === again.receipt.bundle_hash;
  if (!isSame || !ENDED.includes(refusal.code)) throw refusal;
  return again;
}

function hashOf(bundle: ProofBundle): string {
  return Buffer.from(bundleHash(bundle)).toString("hex");
}

function replay(recorded: RecordedDecision, { options }: VerifyCall, operation: Operation): Decided {
  const { required_scope: requiredScope, context } = options;
  if (!recorded.operation_hash.equals(operationHash({ operation, requiredScope, context }))) {
    throw new ApiError("invocation_conflict");
  }
  return {
    decision: recorded.decision as Decision,
    reason: recorded.decision_reason ?? "",
    errorReason: recorded.error_reason,
    receipt: JSON.parse(recorded.receipt) as Receipt,
    receiptHash: recorded.receipt_hash,
    replayed: true,
  };
}

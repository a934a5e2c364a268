import { ApiError } from "../errors.ts";
import { bundleHash, type ProofBundle } from "../protocol/proof_bundle.ts";
import type { ApiKeyCaller } from "../route.ts";
import { sqlState } from "./batch.ts";
import type { Decided } from "./decided.ts";
import type { Decision } from "./decision.ts";
import type { FindRecorded, RecordedDecision } from "./invocations.ts";
import type { Receipt } from "./receipt.ts";

/** One call of verify for an operation: who asks, with which proof, and by what two calls are the same. */
export type BoundCall = {
  caller: ApiKeyCaller;
  invocationId: string;
  operationHash: Buffer;
  bundle: ProofBundle;
};

/** Codes of a proof that cannot be decided on any more; its operation may have been, with this very proof. */
const ENDED: readonly string[] = ["invalid_challenge", "invalid_proof"];

/** Attempts at one operation that others decide on at the same moment. */
const MOST_ATTEMPTS = 3;
const UNIQUE_VIOLATION = "23505";

/**
 * Decides on an operation once. `decide` gives nothing when the operation has its decision already. Then that one is
 * given again, to any genuine proof of the operation; when a proof is refused, to the very proof that was decided on.
 * Throws `invocation_conflict` when it was another operation.
 */
export async function decideOnce(
  findRecorded: FindRecorded,
  call: BoundCall,
  decide: () => Promise<Decided | undefined>,
  attempt = 1,
): Promise<Decided> {
  try {
    const decided = await decide();
    if (decided !== undefined) return decided;
  } catch (error) {
    if (error instanceof ApiError && ENDED.includes(error.code))
      return answerEnded(findRecorded, call, error);
    if (sqlState(error) !== UNIQUE_VIOLATION) throw error;
  }
  const recorded = await findRecorded(call.caller, call.invocationId);
  if (recorded !== undefined) return replay(recorded, call.operationHash);
  if (attempt === MOST_ATTEMPTS) throw new ApiError("unavailable", "The operation is being decided on");
  return decideOnce(findRecorded, call, decide, attempt + 1);
}

async function answerEnded(
  findRecorded: FindRecorded,
  { caller, invocationId, operationHash, bundle }: BoundCall,
  refusal: ApiError,
): Promise<Decided> {
  const recorded = await findRecorded(caller, invocationId);
  if (recorded === undefined) throw refusal;
  const again = replay(recorded, operationHash);
  if (Buffer.from(bundleHash(bundle)).toString("hex") !== again.receipt.bundle_hash) throw refusal;
  return again;
}

function replay(recorded: RecordedDecision, operationHash: Buffer): Decided {
  if (!recorded.operation_hash.equals(operationHash)) throw new ApiError("invocation_conflict");
  return {
    decision: recorded.decision as Decision,
    reason: recorded.decision_reason ?? "",
    errorReason: recorded.error_reason,
    receipt: JSON.parse(recorded.receipt) as Receipt,
    receiptHash: recorded.receipt_hash,
    replayed: true,
  };
}

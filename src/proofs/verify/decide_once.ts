import { sqlState, UNIQUE_VIOLATION } from "../../db/errors.ts";
import { ApiError } from "../../errors.ts";
import { bundleHash, type ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { Decided } from "../decide/decided.ts";
import type { Decision } from "../decide/decision.ts";
import type { Receipt } from "../decide/receipt.ts";
import type { FindRecorded, RecordedDecision } from "./invocations.ts";

/** One call of verify for an operation: who asks, and by what two calls are the same. */
export type BoundCall = { caller: ApiKeyCaller; invocationId: string; operationHash: Buffer };

/**
 * How such a call is decided: its proof is read, then decided on; nothing when the operation has its decision
 * already.
 */
export type DecideBound = {
  read: () => Promise<ProofBundle>;
  decide: (bundle: ProofBundle) => Promise<Decided | undefined>;
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
 * was used for another operation, whatever proof comes with the call.
 */
export async function decideOnce(
  findRecorded: FindRecorded,
  call: BoundCall,
  bound: DecideBound,
  attempt = 1,
): Promise<Decided> {
  let bundle: ProofBundle | undefined;
  try {
    bundle = await bound.read();
    const decided = await bound.decide(bundle);
    if (decided !== undefined) return decided;
  } catch (error) {
    if (error instanceof ApiError && REFUSED.includes(error.code)) {
      return answerRefused(findRecorded, call, { refusal: error, bundle });
    }
    if (sqlState(error) !== UNIQUE_VIOLATION) throw error;
  }
  const recorded = await findRecorded(call.caller, call.invocationId);
  if (recorded !== undefined) return replay(recorded, call.operationHash);
  if (attempt === MOST_ATTEMPTS) throw new ApiError("unavailable", "The operation is being decided on");
  return decideOnce(findRecorded, call, bound, attempt + 1);
}

async function answerRefused(
  findRecorded: FindRecorded,
  { caller, invocationId, operationHash }: BoundCall,
  { refusal, bundle }: { refusal: ApiError; bundle: ProofBundle | undefined },
): Promise<Decided> {
  const recorded = await findRecorded(caller, invocationId);
  if (recorded === undefined) throw refusal;
  const again = replay(recorded, operationHash);
  const isSame = bundle !== undefined && hashOf(bundle) === again.receipt.bundle_hash;
  if (!isSame || !ENDED.includes(refusal.code)) throw refusal;
  return again;
}

function hashOf(bundle: ProofBundle): string {
  return Buffer.from(bundleHash(bundle)).toString("hex");
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

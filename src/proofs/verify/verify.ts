import { type Clock, unixSeconds } from "../../clock.ts";
import { sqlState, UNIQUE_VIOLATION } from "../../db/errors.ts";
import { ApiError } from "../../errors.ts";
import type { Metrics } from "../../metrics.ts";
import type { CertificateMemory } from "../../protocol/documents/certificate_memory.ts";
import { bundleHash, type ProofBundle, rootCertificate } from "../../protocol/documents/proof_bundle.ts";
import { isRequirableScope } from "../../protocol/documents/scopes.ts";
import { encodeBase64 } from "../../protocol/encoding/base64.ts";
import { verifyBundle } from "../../protocol/verification/verify.ts";
import type { Guards } from "../admission/admission.ts";
import { createRateTurn } from "../admission/certificate_rate.ts";
import type { RecordedDecision } from "../admission/repeats.ts";
import type { Decided, Decision } from "../decide/decision.ts";
import type { Receipt } from "../decide/decision_receipt.ts";
import { checkVerifier, contextOf, type Operation, operationHash } from "../operation.ts";
import { type ChallengeKeys, checkChallenge, isSignedHere } from "../present/challenge.ts";
import type { ResolveProofRef } from "../present/proof_ref.ts";
import type { VerifyCall } from "./call.ts";
import { type FindRoot, trustedRoot } from "./trusted_roots.ts";
import { decidedOf, itemOf, judge } from "./verdict.ts";

/** What verifying needs. */
export type VerifyDeps = Guards & {
  keys: ChallengeKeys;
  findRoot: FindRoot;
  resolveProofRef: ResolveProofRef;
  memory: CertificateMemory;
  /** Counts decisions by their value. */
  metrics: Pick<Metrics, "proofDecisions">;
  clock: Clock;
};

/**
 * Decides on a proof. This file is the whole path, from top to bottom: admit, read, check the challenge, find
 * the root, verify the bundle, decide. An operation that has its decision gets it again. Throws `ApiError`
 * when there is no decision. A proof that is merely not allowed is a `deny`, not an error.
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

/**
 * Codes of a proof that can no longer be decided on. Its operation may have been decided with this very
 * proof.
 */
const ENDED: readonly string[] = ["invalid_challenge", "invalid_proof"];
/** Codes of a proof that shows no authority for the operation. */
const REFUSED: readonly string[] = [...ENDED, "session_context_mismatch"];

/** Attempts at one operation that others decide on at the same moment. */
const MOST_ATTEMPTS = 3;

/**
 * Decides on an operation once. An operation that has its decision gets it again, with any genuine proof of
 * it. When a proof is refused, only the very proof that was decided on gets the decision again. Throws
 * `invocation_conflict` when the invocation was used for another operation, whatever proof is sent with the
 * call.
 */
async function decideOnce(
  deps: VerifyDeps,
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

/**
 * The bundle of a call's proof. Throws `invalid_proof` also when the proof belongs to another agent than the
 * call names.
 */
async function readBundle({ resolveProofRef }: VerifyDeps, call: VerifyCall): Promise<ProofBundle> {
  const proof = call.readProof();
  const bundle = "bundle" in proof ? proof.bundle : await resolveProofRef(proof.ref);
  if (bundle === undefined) throw new ApiError("invalid_proof", "proof_ref: names no certificate");
  if (call.agentId !== undefined && call.agentId !== bundle.agent_id) {
    throw new ApiError("invalid_proof", "agent_id: names another agent");
  }
  return bundle;
}

/** What the proof must be bound to, in base64. Throws `session_context_mismatch` when it cannot be. */
function boundContext({ options }: VerifyCall, operation: Operation, bundle: ProofBundle): string {
  if (operation.agent_id !== bundle.agent_id) {
    throw new ApiError("session_context_mismatch", "operation.agent_id: names another agent");
  }
  return encodeBase64(contextOf(operation, options.required_scope));
}

/**
 * Decides on a proof, unless too many were refused here before. With a `sessionContext`, base64 of 32 bytes,
 * the proof must be bound to it. Returns nothing when the operation already has its decision. Throws when
 * there is no decision.
 */
function decideProof(
  deps: VerifyDeps,
  call: VerifyCall,
  bundle: ProofBundle,
  sessionContext?: string,
): Promise<Decided | undefined> {
  return deps.refusals.guard(call.caller, {
    agentId: bundle.agent_id,
    isSigned: () => isSignedHere(deps, bundle, call.caller.connectionId),
    async work() {
      const result = await decideUnguarded(deps, call, bundle, sessionContext);
      return { result, allowed: result?.decision === "allow" };
    },
  });
}

async function decideUnguarded(
  deps: VerifyDeps,
  call: VerifyCall,
  bundle: ProofBundle,
  sessionContext: string | undefined,
): Promise<Decided | undefined> {
  const { caller, options } = call;
  const now = deps.clock.now();
  const challenge = await checkChallenge(deps.keys, bundle, caller.connectionId, now);
  const root = trustedRoot(await deps.findRoot(rootCertificate(bundle).issuer_id), bundle);
  const counting = createRateTurn(deps, { call, bundle, root, now });
  try {
    const verification = await verifyBundle(bundle, {
      now: unixSeconds(now),
      required_scope: options.required_scope,
      session_context: sessionContext,
      context: { ...options.context, invocations: counting.countAllows },
      challengeStore: "deferred",
      revocation: "deferred",
      certificateMemory: deps.memory,
    });
    const isAccepted = verification.genuine && (await counting.isAccepted());
    const judged = judge({ bundle, challenge, now, root, verification, isAccepted });
    const item = itemOf(call, judged, deps.memory);
    const decided = decidedOf(item, await counting.decide(item));
    if (decided !== undefined) deps.metrics.proofDecisions.inc({ decision: decided.decision });
    return decided;
  } finally {
    await counting.end();
  }
}

/**
 * The recorded decision, where the refused proof is the one that was decided on. Throws `refusal` otherwise.
 */
async function answerRefused(
  { findRecorded }: VerifyDeps,
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

/**
 * A recorded decision as it is answered again. Throws `invocation_conflict` when it is of another operation.
 */
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

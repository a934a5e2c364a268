import { z } from "zod";
import { type Clock, unixSeconds } from "../../clock.ts";
import { sqlState, UNIQUE_VIOLATION } from "../../db/errors.ts";
import { ApiError } from "../../errors.ts";
import type { Metrics } from "../../metrics.ts";
import type { CertificateMemory } from "../../protocol/documents/certificate_memory.ts";
import { bundleHash, type ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import { isRequirableScope } from "../../protocol/documents/scopes.ts";
import { encodeBase64 } from "../../protocol/encoding/base64.ts";
import { verifyBundle } from "../../protocol/verification/verify_bundle.ts";
import { type Route, route } from "../../route.ts";
import type { Guards } from "../admission/admission.ts";
import { createRateLock } from "../admission/certificate_rate.ts";
import type { FairQueue } from "../admission/fair_queue.ts";
import { replay } from "../admission/repeats.ts";
import { askMembers, askMembersOf } from "../asking/refusal.ts";
import { type Decided, decidedOf } from "../decide/decision.ts";
import { explainDecision, identityStatusOf, protocolWords, REASONS, type Reason } from "../decide/reasons.ts";
import { checkVerifier, contextOf, type Operation } from "../operation.ts";
import { type ChallengeKeys, checkChallenge, isSignedHere } from "../present/challenge.ts";
import type { ResolveProofRef } from "../present/proof_ref.ts";
import { PROOF_HEADER, readVerifyCall, type VerifyCall, verifyBody } from "./call.ts";
import { type FindRoot, type JudgeDeps, judge } from "./verdict.ts";

/** Dependencies of verification. */
export type VerifyDeps = Guards & {
  keys: ChallengeKeys;
  findRoot: FindRoot;
  resolveProofRef: ResolveProofRef;
  memory: CertificateMemory;
  secretBox: JudgeDeps["secretBox"];
  metrics: Pick<Metrics, "proofDecisions">;
  clock: Clock;
  /** The address at which agents ask people for authority. */
  askEndpoint: string;
};

/** A rule and its outcome, as `verify` returns them. */
export const checkAnswer = z.object({
  name: z.string(),
  outcome: z.enum(["passed", "failed", "not_reached"]),
});

/** A decision, as `verify` returns it. */
export const verifyAnswer = z.object({
  decision: z.enum(["allow", "deny", "indeterminate"]),
  decision_reason: z.enum(Object.keys(REASONS) as Reason[]).describe("Stable reason"),
  valid: z.boolean(),
  identity_status: z.string(),
  error_reason: z.string().nullable().describe("Why not, in the protocol's words"),
  agent_id: z.string(),
  human_id: z.string(),
  cert_id: z.string(),
  granted_scope: z.array(z.string()).describe("What the chain grants; empty unless allowed"),
  verified_at: z.iso.datetime(),
  receipt: z.record(z.string(), z.unknown()).describe("The record of this decision, as its hash was taken"),
  receipt_hash: z.string().describe("sha256:<hex> of the receipt's canonical JSON"),
  replayed: z
    .boolean()
    .describe("Whether this operation was decided by an earlier call; nothing was charged"),
  ...askMembers,
  checks: z.array(checkAnswer).optional().describe("With explain: every rule, in order"),
});

/** `POST /v1/service/verify`: decides on a proof. Only an explicit `allow` permits the action. */
export function verifyRoute(deps: VerifyDeps & { queue: FairQueue }): Route {
  return route({
    id: "verify_proof",
    method: "POST",
    path: "/v1/service/verify",
    summary: "Decide on a proof; act only on allow",
    access: "api_key",
    keyRoles: ["verify"],
    headers: { "X-Service-Proof": "The proof, where it is not in the body" },
    body: verifyBody as unknown as z.ZodType<Buffer>,
    bodyForm: "raw",
    answer: { status: 200, schema: verifyAnswer, description: "A decision, recorded and final" },
    errors: [
      "invalid_challenge",
      "invalid_proof",
      "invalid_scope",
      "session_context_mismatch",
      "credits_exhausted",
      "verifier_mismatch",
      "invocation_conflict",
      "rate_limited",
      "unavailable",
    ],
    handle: ({ caller, body, header }) =>
      deps.queue.run(caller.accountId, async (stepAside) => {
        const call = readVerifyCall(caller, body, header(PROOF_HEADER), deps.memory.recent);
        const decided = await verifyProof(deps, { ...call, stepAside });
        return { body: showDecision(deps, decided, call.options.explain === true) };
      }),
  });
}

/**
 * Decides on a proof. For an operation that already has a decision, returns that decision again. Throws
 * `ApiError` if there is no decision. A genuine proof that is not allowed is a `deny`, not an error.
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

/** Returns the call's whole proof. Throws `invalid_proof`, also if the call names a different agent. */
async function readBundle({ resolveProofRef }: VerifyDeps, call: VerifyCall): Promise<ProofBundle> {
  const proof = call.readProof();
  const bundle = "bundle" in proof ? proof.bundle : await resolveProofRef(proof.ref);
  if (bundle === undefined) throw new ApiError("invalid_proof", "proof_ref: names an unknown certificate");
  if (call.agentId !== undefined && call.agentId !== bundle.agent_id) {
    throw new ApiError("invalid_proof", "agent_id: is not the agent of the proof");
  }
  return bundle;
}

/** Verifies a proof and decides on it. Returns `undefined` if the operation already has a decision. */
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
  const root = await deps.findRoot(bundle);
  const counting = createRateLock(deps, { call, bundle, root, now });
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
    const item = judge(call, { bundle, challenge, now, root, verification, isAccepted }, deps);
    // One statement spends the challenge, charges the account and records the decision.
    const outcome = await counting.decide(item);
    const decided = decidedOf(item, outcome);
    if (decided !== undefined) deps.metrics.proofDecisions.inc({ decision: decided.decision });
    return decided;
  } finally {
    await counting.end();
  }
}

/** Converts a decision to the answer of `verify`. With `explain`, the answer shows every rule's outcome. */
export function showDecision(
  { askEndpoint }: Pick<VerifyDeps, "askEndpoint">,
  decided: Decided,
  explain: boolean,
): z.infer<typeof verifyAnswer> {
  const { decision, reason, errorReason, receipt, receiptHash, replayed } = decided;
  return {
    decision,
    decision_reason: reason,
    valid: decision === "allow",
    identity_status: identityStatusOf(reason),
    error_reason: decision === "allow" || errorReason === null ? null : protocolWords(errorReason),
    agent_id: receipt.agent_id,
    human_id: receipt.human_id,
    cert_id: receipt.cert_id,
    granted_scope: receipt.granted_scope,
    verified_at: receipt.verified_at,
    receipt,
    receipt_hash: `sha256:${receiptHash.toString("hex")}`,
    replayed,
    ...askMembersOf(askEndpoint, receipt),
    ...(explain ? { checks: explainDecision(reason) } : {}),
  };
}

/** Error codes of a proof that can no longer be decided on, but may have led to a decision before. */
const ENDED: readonly string[] = ["invalid_challenge", "invalid_proof"];
/** Error codes of a proof that shows no authority for the operation. */
const REFUSED: readonly string[] = [...ENDED, "session_context_mismatch"];

/** Maximum number of attempts to decide on one operation while other calls decide on it too. */
const MOST_ATTEMPTS = 3;

/**
 * Decides on an operation once. A genuine proof for a decided operation gets the same decision again. A
 * refused proof gets it only if the decision was made with that proof. Throws `invocation_conflict` if the
 * invocation id was used for a different operation, whatever proof the call contains.
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
  if (recorded !== undefined) return replay(recorded, { ...call.options, operation });
  if (attempt === MOST_ATTEMPTS) {
    throw new ApiError("unavailable", "Other calls are deciding on this operation; try again later");
  }
  return decideOnce(deps, call, operation, attempt + 1);
}

/** Returns the session context in base64. Throws `session_context_mismatch` if the operation differs. */
function boundContext({ options }: VerifyCall, operation: Operation, bundle: ProofBundle): string {
  if (operation.agent_id !== bundle.agent_id) {
    throw new ApiError("session_context_mismatch", "operation.agent_id: names another agent");
  }
  return encodeBase64(contextOf(operation, options.required_scope));
}

/** Returns the recorded decision if it was made with the refused proof. Throws `refusal` otherwise. */
async function answerRefused(
  { findRecorded }: VerifyDeps,
  call: VerifyCall,
  operation: Operation,
  { refusal, bundle }: { refusal: ApiError; bundle: ProofBundle | undefined },
): Promise<Decided> {
  const recorded = await findRecorded(call.caller, operation.invocation_id);
  if (recorded === undefined) throw refusal;
  const again = replay(recorded, { ...call.options, operation });
  const isSame = bundle !== undefined && hashOf(bundle) === again.receipt.bundle_hash;
  if (!isSame || !ENDED.includes(refusal.code)) throw refusal;
  return again;
}

function hashOf(bundle: ProofBundle): string {
  return Buffer.from(bundleHash(bundle)).toString("hex");
}

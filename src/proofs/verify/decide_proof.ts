import { type Clock, unixSeconds } from "../../clock.ts";
import { ApiError } from "../../errors.ts";
import type { Metrics } from "../../metrics.ts";
import type { ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import type { CertificateMemory } from "../../protocol/verification/certificate_memory.ts";
import { verifyBundle } from "../../protocol/verification/verify.ts";
import type { Decided } from "../decide/decision.ts";
import type { ChallengeKeys } from "../present/challenge_keys.ts";
import type { ResolveProofRef } from "../present/proof_ref.ts";
import type { VerifyCall } from "./call.ts";
import { checkChallenge, isSignedHere } from "./check_challenge.ts";
import { decidedOf, itemOf } from "./item.ts";
import { type CountingDeps, createRateTurn } from "./rate_turn.ts";
import type { Refusals } from "./refused_proofs.ts";
import { type FindRoot, rootOf, trustedRoot } from "./trusted_roots.ts";
import { judge } from "./verdict.ts";

/** What deciding on a proof needs. */
export type ProofDeps = CountingDeps & {
  keys: ChallengeKeys;
  findRoot: FindRoot;
  resolveProofRef: ResolveProofRef;
  memory: CertificateMemory;
  /** What refused proofs may cost. */
  refusals: Refusals;
  /** Where decisions are counted. */
  metrics: Pick<Metrics, "proofDecisions">;
  clock: Clock;
};

/**
 * The bundle of a call's proof. Throws `invalid_proof` also when it is another agent's than the call says.
 */
export async function readBundle({ resolveProofRef }: ProofDeps, call: VerifyCall): Promise<ProofBundle> {
  const proof = call.readProof();
  const bundle = "bundle" in proof ? proof.bundle : await resolveProofRef(proof.ref);
  if (bundle === undefined) throw new ApiError("invalid_proof", "proof_ref: names no certificate");
  if (call.agentId !== undefined && call.agentId !== bundle.agent_id) {
    throw new ApiError("invalid_proof", "agent_id: names another agent");
  }
  return bundle;
}

/**
 * Decides on a proof, unless too many were refused here before. With a `sessionContext`, base64 of 32 bytes,
 * the proof must be bound to it. Nothing when the operation has its decision already. Throws when there is no
 * decision.
 */
export function decideProof(
  deps: ProofDeps,
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
  deps: ProofDeps,
  call: VerifyCall,
  bundle: ProofBundle,
  sessionContext: string | undefined,
): Promise<Decided | undefined> {
  const { caller, options } = call;
  const now = deps.clock.now();
  const challenge = await checkChallenge(deps.keys, bundle, caller.connectionId, now);
  const root = trustedRoot(await deps.findRoot(rootOf(bundle).issuer_id), bundle);
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

import type { z } from "zod";
import { ApiError, type ErrorCode } from "../../errors.ts";
import type { ApiKeyRates } from "../../rates/api_key_rates.ts";
import type { ApiKeyCaller } from "../../route.ts";
import { type ChallengeDeps, createChallenge } from "../present/challenge_route.ts";
import { buildProof, type PresentDeps } from "../present/present_route.ts";
import { readVerifyCall, type verifyContext } from "../verify/call.ts";
import { showDecision, type VerifyDeps, verifyProof } from "../verify/verify_proof.ts";

/** Dependencies of `tryProof`: the dependencies of the three calls, and the rate limit for proofs. */
export type TryDeps = ChallengeDeps &
  PresentDeps & {
    verify: VerifyDeps;
    /** Counts the proof toward the limit of `present`. */
    keyRates: Pick<ApiKeyRates, "take">;
  };

/** The agent, certificate, scope and context to try. */
export type Tried = {
  agentId: string;
  certId: string | undefined;
  requiredScope: string;
  context: z.infer<typeof verifyContext> | undefined;
};

/** One of the three calls: the request that an application would send, and its answer. */
export type TriedCall = {
  operation: "create_challenge" | "present_proof" | "verify_proof";
  /** The path after the segment with the service's name. */
  path: string;
  body: Record<string, unknown> | null;
  status: number;
  answer: Record<string, unknown>;
};

/** The answer of `verify`, if the trial got a decision. */
export type TriedDecision = ReturnType<typeof showDecision>;

/** Error codes that a trial shows as its result. Any other error makes the trial fail. */
const SHOWN: readonly ErrorCode[] = ["no_active_delegation", "credits_exhausted"];

/**
 * Calls `challenge`, `present` and `verify` for the caller of an API key, in this process. Stops at the
 * decision, or at the first refusal that a trial shows. Throws every other error.
 */
export async function tryProof(
  deps: TryDeps,
  caller: ApiKeyCaller,
  { agentId, certId, requiredScope, context }: Tried,
): Promise<{ calls: TriedCall[]; decision: TriedDecision | undefined }> {
  const calls: TriedCall[] = [];

  async function make<A extends Record<string, unknown>>(
    call: Pick<TriedCall, "operation" | "path" | "body">,
    run: () => Promise<A>,
  ): Promise<A | undefined> {
    try {
      const answer = await run();
      calls.push({ ...call, status: 200, answer });
      return answer;
    } catch (error) {
      if (!(error instanceof ApiError) || !SHOWN.includes(error.code)) throw error;
      const { code, message, status } = error;
      calls.push({ ...call, status, answer: { error: { code, message, status } } });
      return undefined;
    }
  }

  const challenged = await make({ operation: "create_challenge", path: "challenge", body: null }, () =>
    createChallenge(deps, caller),
  );
  if (challenged === undefined) return { calls, decision: undefined };
  const place = { connection_id: caller.connectionId, agent_id: agentId };
  const present = { challenge: challenged.challenge, ...(certId !== undefined && { cert_id: certId }) };
  const path = `connections/${caller.connectionId}/agents/${agentId}/present`;
  const presented = await make({ operation: "present_proof", path, body: present }, async () => {
    await deps.keyRates.take("present", caller);
    return buildProof(deps, caller, { ...place, ...present });
  });
  if (presented === undefined) return { calls, decision: undefined };
  const question = {
    proof_ref: presented.proof_ref,
    required_scope: requiredScope,
    ...(context !== undefined && { context }),
    explain: true,
  };
  const decision = await make({ operation: "verify_proof", path: "verify", body: question }, async () => {
    const call = readVerifyCall(caller, Buffer.from(JSON.stringify(question)), undefined);
    return showDecision(deps.verify, await verifyProof(deps.verify, call), true);
  });
  return { calls, decision };
}

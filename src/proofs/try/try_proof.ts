import type { z } from "zod";
import { ApiError, type ErrorCode } from "../../errors.ts";
import type { ApiKeyCaller } from "../../route.ts";
import { type ChallengeDeps, createChallenge } from "../present/challenge_route.ts";
import { buildProof, type PresentDeps } from "../present/present_route.ts";
import { readVerifyCall, type verifyContext } from "../verify/call.ts";
import { showDecision, type VerifyDeps, verifyProof } from "../verify/verify_proof.ts";

/** What trying takes: what the three calls take, and the rate of proofs that they share. */
export type TryDeps = ChallengeDeps &
  PresentDeps & {
    verify: VerifyDeps;
    /** Counts a proof as present does. Throws `rate_limited` once a connection has had its proofs. */
    takePresent(caller: Pick<ApiKeyCaller, "accountId" | "connectionId">): Promise<unknown>;
  };

/** What is tried. */
export type Tried = {
  agentId: string;
  certId: string | undefined;
  requiredScope: string;
  context: z.infer<typeof verifyContext> | undefined;
};

/** One of the three calls, as an application makes it and as it is answered. */
export type TriedCall = {
  operation: "create_challenge" | "present_proof" | "verify_proof";
  /** Below the service's own segment. */
  path: string;
  body: Record<string, unknown> | null;
  status: number;
  answer: Record<string, unknown>;
};

/** What verify answered, if it was reached and decided. */
export type TriedDecision = ReturnType<typeof showDecision>;

/** Refusals that are what somebody tries to see. Any other is no answer to the question. */
const SHOWN: readonly ErrorCode[] = ["no_active_delegation", "credits_exhausted"];

/**
 * Challenge, present and verify, one after the other, for the caller of an API key, by the functions that
 * these calls run: up to the decision, or to the refusal of one of them.
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
    await deps.takePresent(caller);
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
    return showDecision(await verifyProof(deps.verify, call), true);
  });
  return { calls, decision };
}

import { z } from "zod";
import { type Route, route } from "../../route.ts";
import type { FairQueue } from "../admission/fair_queue.ts";
import type { Decided } from "../decide/decision.ts";
import { PROOF_HEADER, readVerifyCall, verifyBody } from "./call.ts";
import { decisionReasons, explainDecision, identityStatusOf, protocolWords } from "./reasons.ts";
import { type VerifyDeps, verifyProof } from "./verify.ts";

/** A rule and what became of it. */
export const checkAnswer = z.object({
  name: z.string(),
  outcome: z.enum(["passed", "failed", "not_reached"]),
});

const REASONS: readonly string[] = Object.values(decisionReasons).flat();

/** A decision as verify answers it. */
export const verifyAnswer = z.object({
  decision: z.enum(["allow", "deny", "indeterminate"]),
  decision_reason: z
    .string()
    .refine((reason) => REASONS.includes(reason))
    .meta({ enum: REASONS, description: "Stable reason" }),
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
  checks: z.array(checkAnswer).optional().describe("With explain: every rule, in order"),
});

/** `POST /v1/service/verify`: the decision. Only an explicit `allow` permits the action. */
export function verifyRoute(deps: VerifyDeps & { queue: FairQueue }): Route {
  return route({
    id: "verify_proof",
    method: "POST",
    path: "/v1/service/verify",
    summary: "Decide on a proof; act only on allow",
    access: "api_key",
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
        return { body: showDecision(decided, call.options.explain === true) };
      }),
  });
}

/** Shows a decision, explained rule by rule if that is asked for. */
export function showDecision(decided: Decided, explain: boolean): z.infer<typeof verifyAnswer> {
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
    ...(explain ? { checks: explainDecision(reason) } : {}),
  };
}

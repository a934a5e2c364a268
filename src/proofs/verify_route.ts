import { z } from "zod";
import { type Route, route } from "../route.ts";
import { PROOF_HEADER, readVerifyCall, verifyBody } from "./envelope.ts";
import { explainDecision } from "./explain.ts";
import { completeReceipt } from "./receipt.ts";
import { identityStatusOf } from "./verdict.ts";
import { type Verified, type VerifyDeps, verifyProof } from "./verify.ts";

const check = z.object({ name: z.string(), outcome: z.enum(["passed", "failed", "not_reached"]) });

const answer = z.object({
  decision: z.enum(["allow", "deny", "indeterminate"]),
  decision_reason: z.string().describe("Stable reason"),
  valid: z.boolean(),
  identity_status: z.string(),
  error_reason: z.string().nullable(),
  agent_id: z.string(),
  human_id: z.string(),
  cert_id: z.string(),
  granted_scope: z.array(z.string()).describe("What the chain grants; empty unless allowed"),
  verified_at: z.iso.datetime(),
  receipt: z.record(z.string(), z.unknown()).describe("The record of this decision, as its hash was taken"),
  receipt_hash: z.string().describe("sha256:<hex> of the receipt's canonical JSON"),
  replayed: z.boolean(),
  checks: z.array(check).optional(),
});

/** `POST /v1/service/verify`: the decision. Only an explicit `allow` permits the action. */
export function verifyRoute(deps: VerifyDeps): Route {
  return route({
    id: "verify_proof",
    method: "POST",
    path: "/v1/service/verify",
    summary: "Decide on a proof; act only on allow",
    access: "api_key",
    body: verifyBody as unknown as z.ZodType<Buffer>,
    bodyForm: "raw",
    answer: { status: 200, schema: answer, description: "A decision, recorded and final" },
    errors: [
      "invalid_challenge",
      "invalid_proof",
      "invalid_scope",
      "session_context_mismatch",
      "credits_exhausted",
      "not_available",
      "rate_limited",
      "unavailable",
    ],
    async handle({ caller, body, header }) {
      const call = readVerifyCall(body, header(PROOF_HEADER));
      return { body: answerOf(await verifyProof(deps, caller, call), call.options.explain === true) };
    },
  });
}

function answerOf(verified: Verified, explain: boolean): z.infer<typeof answer> {
  const { decision, reason, grantedScope, item, verification } = verified;
  return {
    decision,
    decision_reason: reason,
    valid: decision === "allow",
    identity_status: identityStatusOf[reason] ?? "invalid",
    error_reason: decision === "allow" ? null : errorReasonOf(verified),
    agent_id: item.agentId,
    human_id: item.humanId,
    cert_id: item.certId,
    granted_scope: grantedScope,
    verified_at: item.decidedAt.toISOString(),
    receipt: JSON.parse(completeReceipt(verified.receiptParts, verified)) as Record<string, unknown>,
    receipt_hash: `sha256:${verified.receiptHash.toString("hex")}`,
    replayed: false,
    ...(explain ? { checks: explainDecision(verification.checks, reason) } : {}),
  };
}

/** The protocol's own words when its rules decided; the reason when trust in the root or stored state did. */
function errorReasonOf({ reason, item, verification }: Verified): string {
  const decidedByRules = item.reason === reason && reason !== "untrusted_root";
  return decidedByRules ? (verification.error_reason ?? reason) : reason;
}

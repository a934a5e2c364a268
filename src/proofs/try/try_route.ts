import { z } from "zod";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { idText } from "../../input/schemas.ts";
import { rootOf } from "../../input/url.ts";
import { findAgent } from "../../platforms/agents/agents.ts";
import { findConnection } from "../../platforms/platform_record.ts";
import { isRequirableScope } from "../../protocol/documents/scopes.ts";
import { type Route, route } from "../../route.ts";
import { explainDecision } from "../decide/reasons.ts";
import { verifyContext, verifyOptions } from "../verify/call.ts";
import { checkAnswer, verifyAnswer } from "../verify/verify_proof.ts";
import { curlLines } from "./curl.ts";
import { type TryDeps, tryProof } from "./try_proof.ts";

const body = z.object({
  required_scope: verifyOptions.shape.required_scope,
  cert_id: z
    .string()
    .max(128)
    .optional()
    .describe("The certificate to present; without it the agent's newest active one"),
  context: verifyContext.optional(),
});

const call = z.object({
  operation: z.enum(["create_challenge", "present_proof", "verify_proof"]),
  method: z.literal("POST"),
  url: z.string(),
  body: z.record(z.string(), z.unknown()).nullable(),
  status: z.int(),
  answer: z.record(z.string(), z.unknown()),
});

const answer = z.object({
  decision: verifyAnswer.shape.decision.nullable().describe("null when a call before it was refused"),
  decision_reason: verifyAnswer.shape.decision_reason.nullable(),
  checks: z.array(checkAnswer).describe("Every rule of a decision, in order"),
  calls: z.array(call).describe("The calls that were made, up to the decision or to a refusal"),
  curl: z
    .array(z.string())
    .describe("Shell lines that make the same calls; put an API key into the first one"),
});
/** The answer of a trial. */
export type TryAnswer = z.infer<typeof answer>;

/** Dependencies of the trial's route. */
export type TryRouteDeps = TryDeps & { baseUrl: string; word: string };

/**
 * `POST …/agents/{agent_id}/try`: shows a person what an application with an API key of the connection would
 * receive. The person must be allowed to have such a key. The route creates and spends the challenge and the
 * proof itself, so nobody can use it to get a proof for another service. The decision is charged and recorded
 * like any other.
 */
export function tryRoute(deps: TryRouteDeps): Route {
  const { db, word } = deps;
  const root = `${rootOf(deps.baseUrl)}/v1/${word}`;
  return route({
    id: "try_proof",
    method: "POST",
    path: "/v1/service/connections/{connection_id}/agents/{agent_id}/try",
    summary: "Try what an application would be answered: challenge, present, verify",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    activityDetails: ({ required_scope, cert_id }) => ({
      required_scope,
      ...(cert_id !== undefined && { cert_id }),
    }),
    params: z.object({ connection_id: idText, agent_id: idText }),
    body,
    answer: { status: 200, schema: answer, description: "The calls, their answers and the decision" },
    errors: ["not_found", "not_available", "invalid_scope", "rate_limited", "vault_unavailable"],
    async handle({ caller: { accountId }, params, body }) {
      const { connection_id: connectionId, agent_id: agentId } = params;
      const connection = await findConnection(db, accountId, connectionId);
      const { required_scope: requiredScope, cert_id: certId, context } = body;
      await requirePresentable(db, { connectionId, agentId, certId });
      if (!isRequirableScope(requiredScope)) {
        throw new ApiError("invalid_scope", "required_scope: is not a scope, or is a wildcard");
      }
      const caller = {
        accountId,
        principalAccountId: accountId,
        isCustomer: false,
        connectionId,
        keyPrefix: connection.api_key_prefix,
        verifierId: connection.verifier_id,
        registryAnswers: connection.registry_answers,
        explanationValues: connection.explanation_values,
        role: "full" as const,
        agentId: null,
      };
      const { calls, decision } = await tryProof(deps, caller, { agentId, certId, requiredScope, context });
      return {
        body: {
          decision: decision?.decision ?? null,
          decision_reason: decision?.decision_reason ?? null,
          checks: explainDecision(decision?.decision_reason),
          calls: calls.map(({ path, ...made }) => ({
            ...made,
            method: "POST" as const,
            url: `${root}/${path}`,
          })),
          curl: [
            "API_KEY='paste the API key of the platform here'",
            ...curlLines({
              baseUrl: deps.baseUrl,
              word,
              apiKey: "$API_KEY",
              connectionId,
              agentId,
              present: certId === undefined ? {} : { cert_id: certId },
              verify: {
                required_scope: requiredScope,
                ...(context !== undefined && { context }),
                explain: true,
              },
            }),
          ],
        },
      };
    },
  });
}

/**
 * Throws `not_found` unless the connection has the agent and the agent has the certificate, active or not.
 * Throws `not_available` if the vault lacks the agent's key, because only the key's holder can build a proof.
 */
async function requirePresentable(
  db: Database,
  { connectionId, agentId, certId }: { connectionId: string; agentId: string; certId: string | undefined },
): Promise<void> {
  const agent = await findAgent(db, connectionId, agentId);
  if (certId !== undefined) {
    const own = { cert_id: certId, connection_id: connectionId, agent_id: agentId };
    const row = await db("certificates").where(own).first("cert_id");
    if (row === undefined) throw new ApiError("not_found");
  }
  if (agent.vault_key_id === null) {
    throw new ApiError(
      "not_available",
      "The agent's key is not in the vault, so only the key's holder can build a proof",
    );
  }
}

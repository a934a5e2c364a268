import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { ApiError } from "../../errors.ts";
import { authzenEntity } from "../../input/schemas.ts";
import { validate } from "../../input/validate.ts";
import { type JsonObject, type JsonValue, plainJson } from "../../protocol/encoding/json.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { FairQueue, StepAside } from "../admission/fair_queue.ts";
import { askMembers, askMembersOf } from "../asking/refusal.ts";
import type { Decided } from "../decide/decision.ts";
import { isJsonObject, readOptions, readProof, type VerifyCall } from "../verify/call.ts";
import { type VerifyDeps, verifyProof } from "../verify/verify_proof.ts";
import { findRegistryAnswer, type RegistryDeps } from "./registry_answer.ts";

const properties = z.record(z.string(), z.unknown()).optional();

/** One question (AuthZEN 1.0, Access Evaluation API): may this subject do this action on this resource? */
export const evaluationBody = z.object({
  subject: authzenEntity.describe("type: agent; id: the agent's id"),
  action: z.object({ name: z.string().min(1).max(256), properties }).describe("name: the required scope"),
  resource: authzenEntity.describe("type: connection; id: the caller's connection"),
  context: z
    .record(z.string(), z.unknown())
    .optional()
    .describe("proof_bundle or proof_ref, operation, and what constraints are compared with"),
});

/**
 * The answer to one question. Without a proof, the decision is `false`, unless the connection has enabled
 * registry answers. A registry answer proves nothing about the caller.
 */
export const evaluationAnswer = z.object({
  decision: z.boolean(),
  context: z
    .object({
      assurance: z.enum(["proof", "registry"]).optional(),
      reason: z
        .string()
        .describe(
          "The decision's reason, `replayed` for an allow that an earlier call returned, or an error code if there is no decision",
        ),
      cert_id: z.string().optional(),
      agent_id: z.string().optional(),
      human_id: z
        .string()
        .optional()
        .describe("The root identity of the chain, on whose authority the agent acts"),
      receipt_id: z.string().optional(),
      receipt_hash: z.string().optional(),
      replayed: z
        .boolean()
        .optional()
        .describe("With a proof: whether an earlier call decided this operation; `decision` is then false"),
      ...askMembers,
      error: z.object({ status: z.int(), message: z.string() }).optional(),
    })
    .optional(),
});

/** An evaluation answer, as the API sends it. */
export type EvaluationAnswer = z.infer<typeof evaluationAnswer>;

/** Dependencies of `evaluate`. */
export type EvaluateDeps = { verify: VerifyDeps; queue: FairQueue; registry: RegistryDeps; clock: Clock };

/** A question, and the size in bytes of the request body that contained it. */
export type Question = { members: JsonObject; bodyBytes: number };

/**
 * Answers one question in its own queue slot. Answers a refused proof with `false`. Throws `ApiError` for a
 * malformed question, and when no decision can be made.
 */
export function evaluate(
  deps: EvaluateDeps,
  caller: ApiKeyCaller,
  question: Question,
): Promise<EvaluationAnswer> {
  return deps.queue.run(caller.accountId, (stepAside) => answer(deps, caller, question, stepAside));
}

async function answer(
  deps: EvaluateDeps,
  caller: ApiKeyCaller,
  { members: question, bodyBytes }: Question,
  stepAside: StepAside,
): Promise<EvaluationAnswer> {
  const { context: given, ...others } = question;
  const { proof_bundle: bundle, proof_ref: ref, ...facts } = contextOf(given);
  const asked = { ...(plainJson(others) as object), context: plainJson(facts) };
  const { subject, action, resource, context } = validate(evaluationBody, asked);
  const { operation } = context ?? {};
  const options = readOptions({ required_scope: action.name, operation, context }, "context");
  if (subject.type !== "agent") return refused("unknown_subject");
  if (resource.type !== "connection" || resource.id !== caller.connectionId) {
    return refused("unknown_resource");
  }
  if (bundle === undefined && ref === undefined) {
    if (!caller.registryAnswers) return refused("proof_required");
    const question = { connectionId: caller.connectionId, agentId: subject.id, scope: action.name };
    return askRegistry(deps, { ...question, context: options.context ?? {}, now: deps.clock.now() });
  }
  return askWithProof(deps, {
    caller,
    agentId: subject.id,
    options,
    stepAside,
    readProof: () => readProof({ bundle, ref }, bodyBytes, deps.verify.memory.recent),
  });
}

function contextOf(given: JsonValue | undefined): JsonObject {
  if (given === undefined) return {};
  if (!isJsonObject(given)) throw new ApiError("invalid_request", "context: must be an object");
  return given;
}

async function askRegistry(
  { registry }: EvaluateDeps,
  question: Parameters<typeof findRegistryAnswer>[1],
): Promise<EvaluationAnswer> {
  const found = await findRegistryAnswer(registry, question);
  const context = { assurance: "registry", reason: found.reason } as const;
  if (found.decision === "deny") return { decision: false, context };
  return { decision: true, context: { ...context, cert_id: found.certId } };
}

/**
 * Reason in the answer `false` to a repeated call whose first decision was `allow`. A second `true` could
 * make the client act twice, because a plain AuthZEN client acts on each `true`.
 */
const REPLAYED = "replayed";

/** HTTP statuses of errors for which the answer is `false`. After any other error, there is no decision. */
const REFUSED_STATUS: readonly number[] = [400, 403, 409];

async function askWithProof(deps: EvaluateDeps, call: VerifyCall): Promise<EvaluationAnswer> {
  try {
    return answerOf(deps.verify, await verifyProof(deps.verify, call));
  } catch (error) {
    if (!(error instanceof ApiError) || !REFUSED_STATUS.includes(error.status)) throw error;
    return refused(error.code);
  }
}

function answerOf(
  { askEndpoint }: VerifyDeps,
  { decision, reason, receipt, receiptHash, replayed }: Decided,
): EvaluationAnswer {
  const isReplay = replayed && decision === "allow";
  return {
    decision: decision === "allow" && !replayed,
    context: {
      assurance: "proof",
      reason: isReplay ? REPLAYED : reason,
      cert_id: receipt.cert_id,
      agent_id: receipt.agent_id,
      human_id: receipt.human_id,
      receipt_id: receipt.receipt_id,
      receipt_hash: `sha256:${receiptHash.toString("hex")}`,
      replayed,
      ...askMembersOf(askEndpoint, receipt),
    },
  };
}

function refused(reason: string): EvaluationAnswer {
  return { decision: false, context: { reason } };
}

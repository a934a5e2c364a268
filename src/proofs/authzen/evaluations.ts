import { z } from "zod";
import { ApiError } from "../../errors.ts";
import type { JsonObject, JsonValue } from "../../protocol/encoding/json.ts";
import type { ApiKeyCaller } from "../../route.ts";
import { isJsonObject } from "../verify/call.ts";
import { type EvaluateDeps, type EvaluationAnswer, evaluate, evaluationBody } from "./evaluation.ts";

const MOST_EVALUATIONS = 100;

const semantic = z.enum(["execute_all", "deny_on_first_deny", "permit_on_first_permit"]);

/**
 * Request body of an AuthZEN 1.0 batch ("boxcarred" evaluations). The other members are defaults for members
 * that an item in `evaluations` omits.
 */
export const evaluationsBody = evaluationBody.partial().extend({
  evaluations: z.array(evaluationBody.partial()).max(MOST_EVALUATIONS).optional(),
  options: z.object({ evaluations_semantic: semantic.optional() }).optional(),
});

/** Returns a batch's items with the shared members filled in. Returns `undefined` for a single question. */
export function readBatch(
  members: JsonObject,
): { items: JsonValue[]; semantic: z.infer<typeof semantic> } | undefined {
  const { evaluations, options, ...shared } = members;
  if (evaluations === undefined) return undefined;
  if (!Array.isArray(evaluations)) throw new ApiError("invalid_request", "evaluations: must be a list");
  if (evaluations.length === 0) return undefined;
  if (evaluations.length > MOST_EVALUATIONS) {
    throw new ApiError("invalid_request", `evaluations: must have at most ${MOST_EVALUATIONS} items`);
  }
  return {
    items: evaluations.map((item) => (isJsonObject(item) ? { ...shared, ...item } : item)),
    semantic: semanticOf(options),
  };
}

function semanticOf(options: JsonValue | undefined): z.infer<typeof semantic> {
  const asked = isJsonObject(options) ? options.evaluations_semantic : undefined;
  const result = semantic.default("execute_all").safeParse(asked);
  if (result.success) return result.data;
  throw new ApiError("invalid_request", "options.evaluations_semantic: unknown value");
}

/** Answers the items in order, until an item ends the batch. An item without a decision gets `false`. */
export async function evaluateAll(
  deps: EvaluateDeps,
  caller: ApiKeyCaller,
  batch: { items: JsonValue[]; semantic: z.infer<typeof semantic> },
  bodyBytes: number,
): Promise<EvaluationAnswer[]> {
  const answerTo = (item: JsonValue) => answerItem(deps, caller, item, bodyBytes);
  if (batch.semantic === "execute_all") return Promise.all(batch.items.map(answerTo));
  const last = batch.semantic === "permit_on_first_permit";
  const answers: EvaluationAnswer[] = [];
  for (const item of batch.items) {
    const answer = await answerTo(item);
    answers.push(answer);
    if (answer.decision === last) break;
  }
  return answers;
}

async function answerItem(
  deps: EvaluateDeps,
  caller: ApiKeyCaller,
  item: JsonValue,
  bodyBytes: number,
): Promise<EvaluationAnswer> {
  try {
    if (!isJsonObject(item)) {
      throw new ApiError("invalid_request", "evaluations: each item must be an object");
    }
    return await evaluate(deps, caller, { members: item, bodyBytes });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { code, status, message } = error;
    return { decision: false, context: { reason: code, error: { status, message } } };
  }
}

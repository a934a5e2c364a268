import { AgentError, AwaitingApproval, REFUSALS } from "../agent/errors.ts";
import { receiptIdOf } from "../authority.ts";
import type { VerificationRecord } from "../record.ts";
import type { RuleFault } from "./rules.ts";
import { AUTHORITY } from "./wire.ts";

/**
 * A refusal as MCP clients read it. `_meta` has the code, the required scope and the id of the receipt. If
 * an approval could resolve a denial, it also has `evaluation_id` and `access_request` of `verify`.
 */
export type ToolRefusal = {
  content: [{ type: "text"; text: string }];
  isError: true;
  _meta: Record<string, unknown>;
};

type OwnCode =
  | RuleFault
  | "tool_without_rule"
  | "tool_not_accepted"
  | "no_agent_key"
  | "call_unsupported"
  | "call_cancelled"
  | "verification_unavailable";

const OWN: Readonly<Record<OwnCode, string>> = {
  tool_without_rule: "This server permits no agent to call this tool. Nothing was done.",
  tool_not_accepted: "The tool has changed, and nobody has accepted the change. Nothing was done.",
  no_agent_key: "The call has no agent key. Nothing was done.",
  argument_required: "The call lacks an argument on which the permission depends. Nothing was done.",
  argument_invalid: "An argument on which the permission depends has the wrong type. Nothing was done.",
  call_unsupported: "The call has input that no proof can cover. Nothing was done.",
  call_cancelled: "The call was cancelled before it ran. Nothing was done.",
  verification_unavailable: "The authority could not be verified. Nothing was done.",
};
const NO_PROOF = "The service made no proof. Nothing was done.";
const AWAITING = "The agent has asked for this authority, and no person has decided yet. Nothing was done.";
const DENIED = "The authority does not permit this action. Nothing was done.";
const ASK = "Ask the person for whom you act.";

/** Refuses a call for a reason of the guard itself, without asking the service. */
export function ownRefusal(code: OwnCode, requiredScope?: string): ToolRefusal {
  return refusal(OWN[code], { code, required_scope: requiredScope });
}

/** Turns the guard's refusal into a result. */
export function guardRefusal({ refusal: given, requiredScope, answer }: VerificationRecord): ToolRefusal {
  const { code = "denied" } = given ?? {};
  const [, sentence = DENIED] = Object.hasOwn(REFUSALS, code) ? (REFUSALS[code] ?? []) : [];
  return refusal(sentence, {
    code,
    required_scope: requiredScope,
    receipt_id: receiptIdOf(answer),
    evaluation_id: answer.evaluation_id,
    access_request: answer.access_request,
  });
}

/** Turns an error of `agent.prove` into a result. Any other error means that nobody has decided. */
export function proofRefusal(error: unknown, requiredScope: string): ToolRefusal {
  if (!(error instanceof AgentError)) return ownRefusal("verification_unavailable", requiredScope);
  const { code } = error;
  if (error instanceof AwaitingApproval) return awaiting(error, requiredScope);
  const [, sentence = NO_PROOF] = Object.hasOwn(REFUSALS, code) ? (REFUSALS[code] ?? []) : [];
  return refusal(sentence, { code, required_scope: requiredScope });
}

/** The link is the only part of the text that is not fixed. It leads to the agent's own service. */
function awaiting({ code, taskId, url, evaluationId }: AwaitingApproval, requiredScope: string): ToolRefusal {
  const ask = url === undefined ? ASK : `A person can decide at ${url} and you can then repeat the call.`;
  return refusal(
    AWAITING,
    { code, required_scope: requiredScope, evaluation_id: evaluationId, task_id: taskId, url },
    ask,
  );
}

/** The model reads this text, so it is fixed: it has no argument, no description and no text of others. */
function refusal(sentence: string, details: Record<string, unknown>, ask = ASK): ToolRefusal {
  const given = Object.entries(details).filter(([, value]) => value !== undefined);
  return {
    content: [{ type: "text", text: `${sentence} ${ask}` }],
    isError: true,
    _meta: { [AUTHORITY]: Object.fromEntries(given) },
  };
}

/** The JSON-RPC error for a method without `isError` in its result. Both SDKs send its code. */
export function closedMethod(): Error & { code: number } {
  return Object.assign(new Error("This server permits no agent to call this method. Nothing was done."), {
    code: -32602,
  });
}

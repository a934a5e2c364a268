import { AgentError, REFUSALS } from "../agent/errors.ts";
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
  const [, sentence = NO_PROOF] = Object.hasOwn(REFUSALS, code) ? (REFUSALS[code] ?? []) : [];
  return refusal(sentence, { code, required_scope: requiredScope });
}

/** The model reads this text, so it is fixed: it has no argument, no description and no text of others. */
function refusal(sentence: string, details: Record<string, unknown>): ToolRefusal {
  const given = Object.entries(details).filter(([, value]) => value !== undefined);
  return {
    content: [{ type: "text", text: `${sentence} ${ASK}` }],
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

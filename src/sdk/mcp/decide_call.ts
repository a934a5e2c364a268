import type { Authority } from "../authority.ts";
import type { Guard } from "../create_guard.ts";
import type { Principals } from "../principals.ts";
import type { ProofSource } from "../proof.ts";
import { type AuthInfo, authInfoOf, type Context, isCancelled, requestOf } from "./context.ts";
import { guardRefusal, ownRefusal, type ToolRefusal } from "./refusals.ts";
import { type CallFacts, isPlain, type RuleFault, type ScopeRule } from "./rules.ts";
import { authorityIn, type CallInput } from "./wire.ts";

/** One call of a tool that has a rule with a scope. */
export type DecidedCall = {
  params: Readonly<Record<string, unknown>>;
  input: CallInput;
  context: Context;
  action: string;
  rule: ScopeRule;
};

/** Returns the root ids that may act for the user of a bearer token. */
export type PrincipalsOf = (authInfo: AuthInfo | undefined) => Principals | Promise<Principals>;

/** Everything else in the parameters would be input that the proof does not cover. */
const CALL_MEMBERS = ["name", "arguments", "_meta", "inputResponses", "requestState"];

/** Returns the authority for a call, or the refusal to return as its result. */
export async function decideCall(
  guard: Guard,
  principals: PrincipalsOf | undefined,
  call: DecidedCall,
): Promise<{ authority: Authority } | { refusal: ToolRefusal }> {
  const { context, rule, input } = call;
  const facts = readFacts(call);
  if (typeof facts === "string") return { refusal: ownRefusal(facts, rule.scope) };
  const { amount, currency } = facts;
  const authorization = await guard.authorize({
    requiredScope: rule.scope,
    ...boundOf(call, facts),
    payload: input,
    context: { ...(amount !== undefined && { amount }), ...(currency !== undefined && { currency }) },
    principals: principals && (() => principals(authInfoOf(context))),
  });
  if (!authorization.allowed) return { refusal: guardRefusal(authorization.record) };
  const { authority } = authorization;
  if (!isCancelled(context)) return { authority };
  authority.report("not_attempted", "the call was cancelled");
  return { refusal: ownRefusal("call_cancelled", rule.scope) };
}

/** Returns the values of a call that constraints count, or why its rule refuses the call. */
export function readFacts({
  params,
  input,
  rule,
}: Pick<DecidedCall, "params" | "input" | "rule">): CallFacts | RuleFault | "call_unsupported" {
  const others = Object.keys(params).filter((name) => !CALL_MEMBERS.includes(name));
  if (others.some((name) => params[name] !== undefined)) return "call_unsupported";
  return isPlain(input.arguments) ? rule.factsOf(input.arguments) : "argument_invalid";
}

/**
 * Returns the proof and the operation to which it must be bound. A proof may name no resource and no path:
 * the service then denies if a certificate limits them. A proof that names others counts as no proof.
 */
function boundOf({ context, action }: DecidedCall, facts: CallFacts) {
  const given = authorityIn(requestOf(context)._meta);
  const { resource_id: resourceId, requested_path: requestedPath } = given;
  const isSame =
    [undefined, facts.resource].includes(resourceId as string) &&
    [undefined, facts.path].includes(requestedPath as string);
  return {
    proof: isSame ? (given as ProofSource) : undefined,
    operation: {
      action,
      invocationId: textOf(given.invocation_id) ?? "",
      agentId: textOf(given.agent_id),
      resourceId: resourceId === undefined ? undefined : facts.resource,
      requestedPath: requestedPath === undefined ? undefined : facts.path,
    },
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

import { randomUUID } from "node:crypto";
import type { Ask } from "../agent/asking.ts";
import type { Agent } from "../agent/create_agent.ts";
import type { AgentVerifier } from "../agent/verifiers.ts";
import type { Authority } from "../authority.ts";
import type { Guard } from "../create_guard.ts";
import { decideCall, readFacts } from "../mcp/decide_call.ts";
import { ownRefusal, proofRefusal, type ToolRefusal } from "../mcp/refusals.ts";
import type { ScopeRule } from "../mcp/rules.ts";
import { AUTHORITY, actionsOf, authorityIn, inputOf, nameIn } from "../mcp/wire.ts";
import type { ProxyRules } from "./rules_file.ts";

/** The call of a tool, before the proxy passes it on. */
export type ProxyCall = {
  params: Readonly<Record<string, unknown>>;
  signal: AbortSignal;
  /** The agent that calls, or `undefined` if the call has no key. */
  agent: Agent | undefined;
  isAccepted(tool: string): Promise<boolean>;
};

/** Whether a call may run, and why. */
export type Decision = {
  code: string;
  agentId?: string | undefined;
  invocationId?: string | undefined;
  receiptId?: string | undefined;
} & ({ authority: Authority | undefined; refusal?: never } | { refusal: ToolRefusal; authority?: never });

/** The verifier in whose name the proxy decides. */
export type Decider = { guard: Guard; verifier(): Promise<AgentVerifier> };

/**
 * Decides on a call. With a rule that has a scope, it makes the agent's proof of exactly this call, and has
 * the service verify this proof. Never rejects: every fault refuses the call.
 */
export async function decide(
  rules: Pick<ProxyRules, "server" | "mode" | "tools" | "ask">,
  decider: Decider | undefined,
  call: ProxyCall,
): Promise<Decision> {
  const { name } = call.params;
  const rule = typeof name === "string" ? rules.tools.get(name) : undefined;
  if (rule === undefined) return refused(ownRefusal("tool_without_rule"));
  const scope = rule === "open" ? undefined : rule.scope;
  try {
    if (!(await call.isAccepted(String(name)))) return refused(ownRefusal("tool_not_accepted", scope));
    if (rule === "open") return { code: "open", authority: undefined };
    if (decider === undefined || call.agent === undefined) return refused(ownRefusal("no_agent_key", scope));
    const action = actionsOf(rules.server)(String(name));
    const ask = rules.mode === "enforce" ? rules.ask : undefined;
    const decision = await verify(decider, { ...call, agent: call.agent, action, rule, ask });
    if (decision.authority === undefined || (await isStillAccepted(call, String(name)))) return decision;
    const { authority, agentId, invocationId, receiptId } = decision;
    authority.report("not_attempted", "the tool has changed");
    return { ...refused(ownRefusal("tool_not_accepted", scope)), agentId, invocationId, receiptId };
  } catch {
    return refused(ownRefusal("verification_unavailable", scope));
  }
}

/** The server can change the tool while the service decides. */
function isStillAccepted(call: ProxyCall, name: string): Promise<boolean> {
  return call.isAccepted(name).catch(() => false);
}

type VerifiedCall = ProxyCall & { agent: Agent; action: string; rule: ScopeRule; ask: Ask | undefined };

async function verify({ guard, verifier }: Decider, call: VerifiedCall): Promise<Decision> {
  const { params, signal, agent, action, rule, ask } = call;
  const { scope } = rule;
  const input = inputOf(params.arguments, params.inputResponses);
  const facts = readFacts({ params, input, rule });
  if (typeof facts === "string") return refused(ownRefusal(facts, scope));
  const invocationId = nameIn(params._meta) ?? randomUUID();
  const place = {
    ...(facts.resource !== undefined && { resource_id: facts.resource }),
    ...(facts.path !== undefined && { requested_path: facts.path }),
  };
  const proof = await agent
    .prove({
      ...{ at: await verifier(), scope, action, payload: input, invocationId, signal },
      ...{ resourceId: facts.resource, requestedPath: facts.path, ask },
    })
    .catch((error: unknown) => ({ refusal: proofRefusal(error, scope) }));
  if ("refusal" in proof) {
    const reason = signal.aborted ? ownRefusal("call_cancelled", scope) : proof.refusal;
    return { ...refused(reason), invocationId };
  }
  const { proofRef, agentId } = proof;
  const entry = { proof_ref: proofRef, agent_id: agentId, invocation_id: invocationId, ...place };
  const context = { _meta: { [AUTHORITY]: entry }, signal };
  const decided = await decideCall(guard, undefined, { params, input, context, action, rule });
  const ids = { agentId, invocationId };
  if ("refusal" in decided) return { ...refused(decided.refusal), ...ids };
  const { authority } = decided;
  return { code: "allow", authority, ...ids, receiptId: authority.receiptId };
}

function refused(refusal: ToolRefusal): Decision {
  const { code, receipt_id: receiptId } = authorityIn(refusal._meta);
  return { code: String(code), refusal, receiptId: typeof receiptId === "string" ? receiptId : undefined };
}

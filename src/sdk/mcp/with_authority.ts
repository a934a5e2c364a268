import { type Ask, readAsk } from "../agent/asking.ts";
import type { Agent } from "../agent/create_agent.ts";
import type { AgentVerifier } from "../agent/verifiers.ts";
import { frozenCopy } from "../payload.ts";
import { demandScope } from "../question.ts";
import { demandKnown, type Known } from "../settings.ts";
import { createInvocations } from "./invocations.ts";
import { isPlain } from "./rules.ts";
import { AUTHORITY, actionsOf, authorityIn, inputOf, nameIn, withoutAuthority } from "./wire.ts";

/** The parts of a client's transport that the wrapper uses, for SDK 1.x and 2.x. */
export type ClientTransport = {
  send(message: never, options?: never): Promise<void>;
  onmessage?: unknown;
};

/** The scope of a tool. `resource` and `path` name the arguments that the server's rule also names. */
export type ToolScope = string | { scope: string; resource?: string; path?: string };

/** Settings of a client's connection to one guarded server. */
export type WithAuthorityOptions = {
  /** The server's name, as its guard has it. The agent's `verifiers` know it as `mcp:<server>`. */
  server: string;
  /** The scope of each tool that needs a proof. All other tools are called without one. */
  scopes: Readonly<Record<string, ToolScope>>;
  /** The server's verifier, instead of the one in the agent's settings. */
  verifier?: AgentVerifier | "own";
  /**
   * How to ask a person if the service makes no proof of a call. Without it, the agent asks nobody. Nobody is
   * asked after a refusal of the server, which is a result of the call.
   */
  ask?: Ask;
};

const OPTIONS: Known<WithAuthorityOptions> = {
  ...{ server: true, scopes: true, verifier: true, ask: true },
};

type Message = { id?: unknown; method?: unknown; params?: unknown; result?: unknown; error?: unknown };
type SendOptions = { requestSignal?: AbortSignal; resumptionToken?: unknown } | undefined;
type Scope = { scope: string; resource?: string | undefined; path?: string | undefined };
type Listener = (...args: unknown[]) => unknown;

/**
 * Returns the transport of a client, which sends each call of a tool in `scopes` with a proof of exactly this
 * call. The proof covers what the client sends, and follows no answer of the server. If the service makes no
 * proof, the call fails with an `AgentError`, and nothing is sent. Throws TypeError for invalid settings.
 */
export function withAuthority<Transport extends ClientTransport>(
  transport: Transport,
  agent: Agent,
  options: WithAuthorityOptions,
): Transport {
  demandKnown("options", options, OPTIONS);
  const scopes = readScopes(options.scopes);
  const ask = readAsk(options.ask);
  const actionOf = actionsOf(options.server);
  const at = options.verifier ?? new URL(`mcp:${options.server}`);
  const invocations = createInvocations();

  async function prepare(message: Message, sendOptions: SendOptions): Promise<Message> {
    const params = isPlain(message.params) ? message.params : {};
    if (message.method === "notifications/cancelled") invocations.end(params.requestId, "lost");
    if (message.method !== "tools/call") return message;
    const rule = scopes.get(String(params.name));
    if (rule !== undefined) return prove(message, params, rule, sendOptions?.requestSignal);
    const own = withoutAuthority(params._meta);
    return own ? { ...message, params: { ...params, _meta: own } } : message;
  }

  async function prove(
    message: Message,
    params: Readonly<Record<string, unknown>>,
    rule: Scope,
    requestSignal: AbortSignal | undefined,
  ): Promise<Message> {
    const { name, _meta: meta, ...input } = params;
    const action = actionOf(String(name));
    const invocation = invocations.begin(message.id, { action, params, named: nameIn(meta) });
    // The copy is what the client sends, even if the caller changes its arguments in the meantime.
    const sent = frozenCopy(input) as Record<string, unknown>;
    const place = {
      resource_id: textIn(sent.arguments, rule.resource),
      requested_path: textIn(sent.arguments, rule.path),
    };
    const { proofRef, agentId, invocationId } = await agent.prove({
      ...{ at, action, scope: rule.scope, invocationId: invocation.id },
      ...{ resourceId: place.resource_id, requestedPath: place.requested_path },
      payload: inputOf(sent.arguments, sent.inputResponses),
      ask,
      signal: AbortSignal.any([invocation.signal, ...(requestSignal ? [requestSignal] : [])]),
    });
    const entry = { proof_ref: proofRef, agent_id: agentId, invocation_id: invocationId, ...place };
    return {
      ...message,
      params: { ...sent, name, _meta: { ...withoutAuthority(meta), [AUTHORITY]: entry } },
    };
  }

  async function send(message: Message | Message[], sendOptions: SendOptions): Promise<void> {
    const pass = (sent: unknown) => transport.send(sent as never, sendOptions as never);
    // With a token, the transport only continues a stream, and sends no call.
    if (sendOptions?.resumptionToken !== undefined) return pass(message);
    const all = Array.isArray(message) ? message : [message];
    try {
      const proven = await Promise.all(all.map((each) => prepare(each, sendOptions)));
      await pass(Array.isArray(message) ? proven : proven[0]);
    } catch (error) {
      for (const { id } of all) invocations.end(id, "lost");
      throw error;
    }
  }

  function receive(message: Message): Message {
    if ("result" in message) invocations.end(message.id, "answered");
    else if ("error" in message) invocations.end(message.id, "lost");
    return withoutForeignLinks(message, agent);
  }

  return new Proxy(transport, {
    get(target, name) {
      if (name === "send") return send;
      const value: unknown = Reflect.get(target, name, target);
      // A method with private members needs the transport itself.
      return typeof value === "function" && !name.toString().startsWith("on") ? value.bind(target) : value;
    },
    set(target, name, value: unknown) {
      return Reflect.set(target, name, listener(name, value), target);
    },
  });

  function listener(name: string | symbol, value: unknown): unknown {
    if (typeof value !== "function") return value;
    const next = value as Listener;
    if (name === "onmessage") {
      return (message: Message, ...more: unknown[]) => next(receive(message), ...more);
    }
    if (name !== "onclose") return value;
    return (...args: unknown[]) => {
      invocations.loseAll();
      return next(...args);
    };
  }
}

function readScopes(scopes: WithAuthorityOptions["scopes"]): ReadonlyMap<string, Scope> {
  if (!isPlain(scopes)) throw new TypeError("scopes: must be an object of scopes by tool");
  return new Map(
    Object.entries(scopes).map(([tool, given]) => {
      const { scope, resource, path, ...others } = typeof given === "string" ? { scope: given } : given;
      if (Object.keys(others).length > 0) {
        throw new TypeError(`scopes: ${JSON.stringify(tool)} has an unknown member`);
      }
      demandScope(scope, `scopes: ${JSON.stringify(tool)}`);
      return [tool, { scope, resource, path }];
    }),
  );
}

function textIn(given: unknown, name: string | undefined): string | undefined {
  if (name === undefined || !isPlain(given) || !Object.hasOwn(given, name)) return undefined;
  const value = given[name];
  return typeof value === "string" ? value : undefined;
}

/** Removes a request for authority that leads to another service than the agent's own. */
function withoutForeignLinks(message: Message, agent: Agent): Message {
  const { result } = message;
  if (!isPlain(result)) return message;
  const { access_request: request, ...entry } = authorityIn(result._meta);
  if (request === undefined || (isPlain(request) && agent.isOwnLink(request.endpoint))) return message;
  const meta = { ...withoutAuthority(result._meta), [AUTHORITY]: entry };
  return { ...message, result: { ...result, _meta: meta } };
}

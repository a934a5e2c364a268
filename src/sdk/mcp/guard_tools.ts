import type { Authority } from "../authority.ts";
import type { Guard } from "../create_guard.ts";
import { keepAuthority } from "../route.ts";
import { demand, demandFunction, demandKnown, type Known } from "../settings.ts";
import { type Context, contextForTool, requestOf } from "./context.ts";
import { decideCall, type PrincipalsOf } from "./decide_call.ts";
import { closedMethod, ownRefusal } from "./refusals.ts";
import { isPlain, readRules, type ToolRules } from "./rules.ts";
import { AUTHORITY, actionsOf, type CallInput, inputOf, OPEN_METHODS, withoutAuthority } from "./wire.ts";

/** The parts of the SDKs' low-level `Server` that the guard uses. */
export type LowLevelServer = {
  setRequestHandler(...args: never[]): unknown;
  assertCanSetRequestHandler(method: string): unknown;
  registerCapabilities(capabilities: never): unknown;
};

/** A server of `@modelcontextprotocol/server` 2.x or of `@modelcontextprotocol/sdk` 1.x. */
export type GuardableServer = LowLevelServer | { readonly server: LowLevelServer };

/** Settings of a guarded server. */
export type GuardToolsOptions = {
  /** The server's name, without `/`. The action of a call is `<server>/<tool>`. */
  server: string;
  /**
   * Returns the root ids that may act for the user of the bearer token: that user is not the person in the
   * proof. The guard calls it after each `allow`, in addition to its own `principals`.
   */
  principals?: PrincipalsOf;
  /** More methods that need no proof, such as `resources/read`. By default they return the error -32602. */
  openMethods?: readonly string[];
};

/** Methods whose handlers must not exist before the guard. */
const GUARDED_METHODS = [
  ...["tools/call", "prompts/get", "resources/read", "resources/subscribe", "completion/complete"],
  ...["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"],
];
const OPTIONS: Known<GuardToolsOptions> = { server: true, principals: true, openMethods: true };
const FALLBACK = "fallbackRequestHandler";

type Params = Record<string, unknown>;
type Run = (params: Params, context: Context) => unknown;
type Wrap = (handler: unknown, isBare?: boolean) => unknown;

/**
 * Guards the tools of an MCP server, and returns the server. Call it before you register tools. A call runs
 * only after an explicit `allow` for exactly this server, tool and input. A tool without a rule is refused.
 * Throws TypeError for invalid rules, and for a server that already has tools.
 */
export function guardTools<Server extends GuardableServer>(
  server: Server,
  guard: Guard,
  rules: ToolRules,
  options: GuardToolsOptions,
): Server {
  demand(typeof Object(guard).authorize === "function", "guard: must be one of createGuard");
  demandKnown("options", options, OPTIONS);
  demandFunction("principals", options.principals);
  const tools = readRules(rules);
  const actionOf = actionsOf(options.server);
  const open = new Set([...OPEN_METHODS, ...(options.openMethods ?? [])]);
  if (open.has("tools/call")) throw new TypeError("openMethods: tools/call has rules instead");
  const { principals } = options;

  async function call(params: Params, context: Context, run: Run): Promise<unknown> {
    const { name, arguments: given } = params;
    const rule = typeof name === "string" ? tools.get(name) : undefined;
    if (rule === undefined) return ownRefusal("tool_without_rule");
    const own = { ...params, ...("_meta" in params && { _meta: withoutAuthority(params._meta) }) };
    if (rule === "open") return run(own, contextForTool(context));
    const input = inputOf(given, requestOf(context).inputResponses ?? params.inputResponses);
    const action = actionOf(String(name));
    const decided = await decideCall(guard, principals, { params, input, context, action, rule });
    if ("refusal" in decided) return decided.refusal;
    return actOn(decided.authority, (frozen) => {
      const toolContext = contextForTool(context, frozen);
      keepAuthority(toolContext, decided.authority);
      return run(given === undefined ? own : { ...own, arguments: frozen.arguments }, toolContext);
    });
  }

  /** Guards one handler. A bare handler has schemas of its own, and receives only the parameters. */
  function guarded(handler: (...args: unknown[]) => unknown, isBare: boolean) {
    return async (request: Params, context: Context): Promise<unknown> => {
      const method = String(requestOf(context).method ?? request.method);
      if (open.has(method)) return handler(request, context);
      if (method !== "tools/call") throw closedMethod();
      const params = isBare ? request : request.params;
      return call(isPlain(params) ? params : {}, context, (own, toolContext) =>
        handler(isBare ? own : { ...request, params: own }, toolContext),
      );
    };
  }

  const target = lowLevel(server);
  demandUnused(target, open);
  target.registerCapabilities({ extensions: { [AUTHORITY]: {} } } as never);
  wrapHandlers(target, (handler, isBare = false) =>
    typeof handler === "function" ? guarded(handler as Run & (() => unknown), isBare) : handler,
  );
  return server;
}

function lowLevel(server: GuardableServer): LowLevelServer {
  return "server" in server ? server.server : server;
}

/** Runs the tool on the frozen input, and reports how it ended. */
async function actOn(authority: Authority, act: (input: CallInput) => unknown): Promise<unknown> {
  try {
    const result = await act(authority.payload as CallInput);
    authority.report(isPlain(result) && result.isError === true ? "failed" : "executed");
    return result;
  } catch (error) {
    authority.report("failed", error instanceof Error ? error.name : undefined);
    throw error;
  }
}

/** Throws TypeError if a handler exists that the guard could no longer wrap. */
function demandUnused(target: LowLevelServer, open: ReadonlySet<string>): void {
  const { _requestHandlers: handlers } = target as { _requestHandlers?: unknown };
  const others = handlers instanceof Map ? [...handlers.keys()].map(String) : [];
  for (const method of [...GUARDED_METHODS, ...others].filter((each) => !open.has(each))) {
    try {
      target.assertCanSetRequestHandler(method);
    } catch {
      throw new TypeError(
        `guardTools: the server already handles ${method}. Guard it before you register tools, and create it without capabilities.tools and without a task store`,
      );
    }
  }
}

/**
 * Wraps all later handlers of this instance. The SDK calls the fallback handler without `setRequestHandler`,
 * so it becomes a property that wraps too.
 */
function wrapHandlers(target: LowLevelServer, wrap: Wrap): void {
  const register = target.setRequestHandler.bind(target) as (...args: unknown[]) => unknown;
  target.setRequestHandler = (...args: unknown[]) => {
    const isBare = typeof args[0] === "string" && args.length > 2;
    return register(...args.slice(0, -1), wrap(args.at(-1), isBare));
  };
  let fallback = wrap(Reflect.get(target, FALLBACK));
  Object.defineProperty(target, FALLBACK, {
    get: () => fallback,
    set: (handler: unknown) => {
      fallback = wrap(handler);
    },
  });
}

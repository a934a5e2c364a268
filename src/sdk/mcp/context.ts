import { isPlain } from "./rules.ts";
import { type CallInput, withoutAuthority } from "./wire.ts";

/** The second argument of a handler: `extra` in SDK 1.x, and `ctx` in SDK 2.x. */
export type Context = Record<string, unknown>;

/** The bearer token of a request, as the SDKs pass it to a handler. */
export type AuthInfo = {
  token: string;
  clientId: string;
  scopes: string[];
  extra?: Record<string, unknown>;
};

/** Returns the facts of the request: SDK 2.x has them in `mcpReq`, and SDK 1.x in the context itself. */
export function requestOf(context: Context): Context {
  return isPlain(context.mcpReq) ? context.mcpReq : context;
}

/** Returns the bearer token that the server's own authentication has accepted. */
export function authInfoOf(context: Context): AuthInfo | undefined {
  const holder = isPlain(context.mcpReq) ? context.http : context;
  return isPlain(holder) ? (holder.authInfo as AuthInfo | undefined) : undefined;
}

export function isCancelled(context: Context): boolean {
  const { signal } = requestOf(context);
  return signal instanceof AbortSignal && signal.aborted;
}

/** Returns a copy of the context for the tool. It has no proof that a nested call could pass on. */
export function contextForTool(context: Context, input?: CallInput): Context {
  const request = requestOf(context);
  const own = {
    ...request,
    _meta: withoutAuthority(request._meta),
    ...(input?.inputResponses !== undefined && { inputResponses: input.inputResponses }),
  };
  return request === context ? own : { ...context, mcpReq: own };
}

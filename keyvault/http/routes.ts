import type { IncomingMessage } from "node:http";
import { type ParsedUrlQuery, parse } from "node:querystring";
import type { Caller, Role } from "../audit/record.ts";
import type { Refusal } from "../errors.ts";

/** The parts of a request that call handlers can read. */
export type CallContext = {
  req: IncomingMessage;
  /** Values of the path's parameters, percent-decoded. */
  params: Readonly<Record<string, string>>;
  readonly query: ParsedUrlQuery;
  /** Returns a header by its lower-case name, or an empty string if the header is missing or repeated. */
  get(header: string): string;
  /** Throws `VaultError forbidden` if the caller's certificate is no longer accepted. */
  requireCaller(): void;
};

/** Arguments of a call's handler: the caller, the key id in the path, and the request. */
export type Invocation = { caller: Caller; keyId: string; context: CallContext };

/** A call: the roles that may make it, and its handler. The handler returns a response body or a refusal. */
export type Call = {
  method: "GET" | "POST";
  path: string;
  roles: readonly Role[];
  handle(invocation: Invocation): Promise<object | Refusal>;
};

/** Returns a `GET` call for these roles. */
export function get(path: string, roles: readonly Role[], handle: Call["handle"]): Call {
  return { method: "GET", path, roles, handle };
}

/** Returns a `POST` call for these roles. */
export function post(path: string, roles: readonly Role[], handle: Call["handle"]): Call {
  return { method: "POST", path, roles, handle };
}

/** A call that matches a path, with the values of the path's parameters. */
export type Route = { call: Call; params: Readonly<Record<string, string>> };

/** Finds the call for a method and a complete, case-sensitive path. `HEAD` finds the same call as `GET`. */
export type FindRoute = (method: string | undefined, path: string) => Route | undefined;

/** Returns a function that finds a call by its path. `:name` in a path matches one non-empty segment. */
export function createRoutes(calls: readonly Call[]): FindRoute {
  const known = new Map<string, { call: Call; parts: readonly string[] }[]>();
  for (const call of calls) {
    const parts = call.path.split("/");
    const place = placeOf(call.method, parts.length);
    known.set(place, [...(known.get(place) ?? []), { call, parts }]);
  }
  return (method, path) => {
    const segments = path.split("/");
    const candidates = known.get(placeOf(method === "HEAD" ? "GET" : method, segments.length)) ?? [];
    const found = candidates.find(({ parts }) =>
      parts.every((part, index) => matches(part, segments[index])),
    );
    return found && { call: found.call, params: paramsOf(found.parts, segments) };
  };
}

/** Returns the request context that call handlers receive. */
export function contextOf(
  req: IncomingMessage,
  params: Route["params"],
  requireCaller: CallContext["requireCaller"],
): CallContext {
  return {
    req,
    params,
    requireCaller,
    get query() {
      const { url = "" } = req;
      const start = url.indexOf("?");
      return parse(start === -1 ? "" : url.slice(start + 1));
    },
    get(header) {
      const value = req.headers[header];
      return typeof value === "string" ? value : "";
    },
  };
}

/** Returns a request's path without its query string. */
export function pathOf({ url = "" }: IncomingMessage): string {
  const end = url.indexOf("?");
  return end === -1 ? url : url.slice(0, end);
}

function placeOf(method: string | undefined, length: number): string {
  return `${method} ${length}`;
}

function matches(part: string, given: string | undefined): boolean {
  return part.startsWith(":") ? given !== "" : part === given;
}

function paramsOf(parts: readonly string[], given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    parts.flatMap((part, index) => (part.startsWith(":") ? [[part.slice(1), decode(given[index])]] : [])),
  );
}

function decode(text = ""): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

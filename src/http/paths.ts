import { METHODS } from "node:http";
import Router from "@koa/router";
import { ApiError } from "../errors.ts";
import type { Names } from "../input/names.ts";
import type { Route } from "../route.ts";
import { type CallContext, type HttpCall, inOrder, type Middleware } from "./http_call.ts";
import type { Reply } from "./replies.ts";

/** A route and the function that runs its calls. */
export type Operation = { route: Route; run(ctx: CallContext): Promise<Reply> };

/** A `GET` operation also answers `HEAD`. */
type Path = {
  /** The paths that lead to these operations, with parameters as in routes. */
  at: readonly string[];
  byMethod: ReadonlyMap<string, Operation>;
  allow: string;
};

/**
 * Groups operations by path. Sorts paths with fixed segments before paths with parameters. Throws if two
 * operations have the same id, the same method and path, or different parameter names for one path.
 */
export function createPaths(operations: readonly Operation[], names: Names): Path[] {
  refuseDuplicates(operations);
  const groups = Map.groupBy(operations, ({ route }) => route.path.replaceAll(/\{\w+(\*?)\}/g, "{$1}"));
  return [...groups]
    .sort(([a], [b]) => orderOf(a).localeCompare(orderOf(b), "en"))
    .map(([, group]) => pathOf(group, names));
}

function refuseDuplicates(operations: readonly Operation[]): void {
  const seen = new Set<string>();
  for (const { route } of operations) {
    for (const name of [route.id, `${route.method} ${route.path.replaceAll(/\{\w+\*?\}/g, "{}")}`]) {
      if (seen.has(name)) throw new Error(`Two routes have the same id or path: ${name}`);
      seen.add(name);
    }
  }
}

/** Fixed segments sort before parameters, and parameters before a wildcard for the rest of a path. */
function orderOf(path: string): string {
  const kind = (segment: string) => (segment === "{*}" ? "2" : segment === "{}" ? "1" : "0");
  return path.split("/").map(kind).join("");
}

function pathOf(group: readonly Operation[], names: Names): Path {
  const named = new Set(group.map(({ route }) => route.path));
  if (named.size > 1) {
    throw new Error(`Two routes name their parameters differently: ${[...named].join(", ")}`);
  }
  const byMethod = new Map(group.map((operation) => [operation.route.method as string, operation]));
  const get = byMethod.get("GET");
  if (get !== undefined) byMethod.set("HEAD", get);
  const at = group.flatMap(({ route }) => [...names.paths(route.path), ...(route.alsoAt ?? [])]);
  return { at: [...new Set(at)], byMethod, allow: [...byMethod.keys()].sort().join(", ") };
}

/**
 * Creates Koa's router. Each path accepts every method, so the method never decides which path matches. The
 * path with the fewest parameters wins, then the first in the list.
 */
export function createRouter(paths: readonly Path[]): Router<HttpCall> {
  const router = new Router<HttpCall>({ sensitive: true, strict: true, exclusive: "specificity" });
  for (const path of paths) {
    const patterns = path.at.map((each) =>
      each.replaceAll(/\{(\w+)\*\}/g, "*$1").replaceAll(/\{(\w+)\}/g, ":$1"),
    );
    router.register(patterns, METHODS, (ctx) => serve(path, ctx, ctx.params));
  }
  return router;
}

/** Runs the path's operation for the call's method. Throws `method_not_allowed` if there is none. */
async function serve(
  { byMethod, allow }: Path,
  ctx: CallContext,
  params: Record<string, string>,
): Promise<Reply> {
  const operation = byMethod.get(ctx.state.request.method ?? "");
  if (operation === undefined) throw new ApiError("method_not_allowed", undefined, { allow });
  ctx.state.route = operation.route.id;
  ctx.state.params = params;
  return operation.run(ctx);
}

/** Paths that a map finds before Koa runs, because they receive thousands of calls a second (decision 7). */
const DIRECT = [
  "/v1/service/challenge",
  "/v1/service/connections/{connection_id}/agents/{agent_id}/present",
  "/v1/service/verify",
  "/access/v1/evaluation",
  "/access/v1/evaluations",
  "/v1/service/ext-auth",
];
/** The form of a parameter in a direct path. A call with any other text in that position goes through Koa. */
const ID = /(?<=\/)(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=\/)/g;

/** Returns a direct path's parameters and the function for its call. Returns `undefined` for other paths. */
export type FindDirect = (
  url: string,
) => { run(ctx: CallContext): Promise<Reply>; params: Record<string, string> } | undefined;

/** Creates a function that finds the direct paths among `paths`. `before` runs before each operation. */
export function createFindDirect(
  paths: readonly Path[],
  names: Names,
  before: readonly Middleware[],
): FindDirect {
  const direct = new Set(DIRECT.flatMap((path) => names.paths(path)));
  const known = new Map<string, { run(ctx: CallContext): Promise<Reply>; parameters: string[] }>();
  for (const path of paths) {
    const run = inOrder([...before, (ctx) => serve(path, ctx, ctx.state.params as Record<string, string>)]);
    for (const at of path.at.filter((each) => direct.has(each))) {
      const parameters = [...at.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name);
      known.set(at.replaceAll(/\{\w+\}/g, "{}"), { run, parameters });
    }
  }
  return (url) => {
    const at = withoutQuery(url);
    const found = known.get(at) ?? known.get(at.replace(ID, "{}"));
    if (found === undefined) return undefined;
    const { run, parameters } = found;
    const ids = parameters.length === 0 ? [] : (at.match(ID) ?? []);
    return { run, params: Object.fromEntries(parameters.map((name, place) => [name, ids[place] ?? ""])) };
  };
}

/** Returns the path of a request target without its query. Does not decode it. */
export function withoutQuery(url: string): string {
  const end = url.indexOf("?");
  return end === -1 ? url : url.slice(0, end);
}

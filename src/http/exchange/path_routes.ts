import { ApiError } from "../../errors.ts";
import type { Names } from "../../input/names.ts";
import type { Route } from "../../route.ts";
import type { Exchange, FinishExchange } from "./finish_exchange.ts";
import type { HandleRequest } from "./route_handler.ts";

/** A route and what answers its requests. */
export type MountedRoute = { route: Route; serve: HandleRequest };

/** One path and its routes by method. A `GET` answers `HEAD` too. */
export type PathRoutes = {
  /** The paths it is served at, with parameters as routes write them. */
  paths: readonly string[];
  byMethod: ReadonlyMap<string, MountedRoute>;
  /** The methods there are, as the header `Allow` lists them. */
  allow: string;
};

/**
 * Routes by the path they have in common, those with fixed segments before those with parameters.
 */
export function pathRoutesOf(mounted: readonly MountedRoute[], names: Names): PathRoutes[] {
  const groups = Map.groupBy(mounted, ({ route }) => route.path.replaceAll(/\{\w+(\*?)\}/g, "{$1}"));
  return [...groups]
    .sort(([a], [b]) => orderOf(a).localeCompare(orderOf(b), "en"))
    .map(([, group]) => groupOf(group, names));
}

function groupOf(group: readonly MountedRoute[], names: Names): PathRoutes {
  const named = new Set(group.map(({ route }) => route.path));
  if (named.size > 1) {
    throw new Error(`Two routes name their parameters differently: ${[...named].join(", ")}`);
  }
  const byMethod = new Map(group.map((entry) => [entry.route.method as string, entry]));
  const get = byMethod.get("GET");
  if (get !== undefined) byMethod.set("HEAD", get);
  const paths = group.flatMap(({ route }) => [...names.paths(route.path), ...(route.alsoAt ?? [])]);
  return { paths: [...new Set(paths)], byMethod, allow: [...byMethod.keys()].sort().join(", ") };
}

/** A path with its segments as digits: fixed before parameter before the rest of a path. */
function orderOf(path: string): string {
  const kind = (segment: string) => (segment === "{*}" ? "2" : segment === "{}" ? "1" : "0");
  return path.split("/").map(kind).join("");
}

/** Paths without parameters, by each path they are served at. */
export function createDirectPaths(routes: readonly PathRoutes[]): Map<string, PathRoutes> {
  const fixed = routes.flatMap((one) => one.paths.map((path): [string, PathRoutes] => [path, one]));
  return new Map(fixed.filter(([path]) => !path.includes("{")));
}

/**
 * Ends an exchange at a path by its method's route, or as `method_not_allowed` with the methods there are.
 */
export type ServePath = (
  found: PathRoutes,
  exchange: Exchange,
  params: Record<string, string>,
) => Promise<void>;

/** Serves paths; every exchange is ended by `finish`. */
export function createServePath(finish: FinishExchange): ServePath {
  return ({ byMethod, allow }, exchange, params) => {
    const found = byMethod.get(exchange.request.method ?? "");
    if (found === undefined) {
      return finish(exchange, "none", async () => {
        throw new ApiError("method_not_allowed", undefined, { allow });
      });
    }
    return finish(exchange, found.route.id, ({ request, id }) =>
      found.serve({ message: request, params, requestId: id.logged }),
    );
  };
}

/** The path of a request's target, as it was sent. */
export function pathOf(url: string): string {
  const end = url.indexOf("?");
  return end === -1 ? url : url.slice(0, end);
}

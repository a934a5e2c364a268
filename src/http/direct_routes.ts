import type { Route } from "../route.ts";
import type { Names } from "./names.ts";
import type { Serve } from "./serve.ts";

/** A route and what answers its requests. */
export type MountedRoute = { route: Route; serve: Serve };

/** Routes to be found by one look-up. */
export type DirectRoutes = Map<string, Map<string, MountedRoute>>;

/** Routes without parameters, by method and then by each path they are served at. */
export function createDirectRoutes(mounted: readonly MountedRoute[], names: Names): DirectRoutes {
  const direct = new Map<string, Map<string, MountedRoute>>();
  for (const entry of mounted) {
    const { method, path } = entry.route;
    if (path.includes("{")) continue;
    const byPath = direct.get(method) ?? new Map<string, MountedRoute>();
    for (const place of names.paths(path)) byPath.set(place, entry);
    direct.set(method, byPath);
  }
  return direct;
}

/** The path of a request's target, as it was sent. */
export function pathOf(url: string): string {
  const end = url.indexOf("?");
  return end === -1 ? url : url.slice(0, end);
}

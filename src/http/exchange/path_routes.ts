import type { Route } from "../../route.ts";
import type { Names } from "../names.ts";
import type { Serve } from "./route_handler.ts";

/** A route and what answers its requests. */
export type MountedRoute = { route: Route; serve: Serve };

/** One path and its routes by method. A `GET` answers `HEAD` too. */
export type Place = {
  /** The paths it is served at, with parameters as routes write them. */
  paths: readonly string[];
  byMethod: ReadonlyMap<string, MountedRoute>;
  /** The methods there are, as the header `Allow` lists them. */
  allow: string;
};

/**
 * Routes by the path they have in common, those with fixed segments before those with parameters in the same
 * place.
 */
export function placesOf(mounted: readonly MountedRoute[], names: Names): Place[] {
  const groups = Map.groupBy(mounted, ({ route }) => route.path.replaceAll(/\{\w+(\*?)\}/g, "{$1}"));
  return [...groups]
    .sort(([a], [b]) => orderOf(a).localeCompare(orderOf(b), "en"))
    .map(([, group]) => placeOf(group, names));
}

function placeOf(group: readonly MountedRoute[], names: Names): Place {
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

/** Places without parameters, by each path they are served at. */
export function createDirectPlaces(places: readonly Place[]): Map<string, Place> {
  const fixed = places.flatMap((place) => place.paths.map((path): [string, Place] => [path, place]));
  return new Map(fixed.filter(([path]) => !path.includes("{")));
}

/** The path of a request's target, as it was sent. */
export function pathOf(url: string): string {
  const end = url.indexOf("?");
  return end === -1 ? url : url.slice(0, end);
}

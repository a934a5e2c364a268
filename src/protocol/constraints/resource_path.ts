/** Limits an action to one resource and, with a prefix, to a part of that resource (wire format §7). */
export type ResourcePath = {
  type: "resource_path";
  resource_id: string;
  path_prefix?: string;
};

const FORBIDDEN_CHARACTERS = /[\0\\]/;

/**
 * Returns the normalized form of a path, or `undefined` if the path is not valid (wire format §7). A valid
 * path is absolute and has no empty, `.` or `..` segment, no NUL and no backslash. A trailing `/` is trimmed.
 * `%` is an ordinary character.
 */
export function normalizePath(path: string): string | undefined {
  if (path === "/") return path;
  const trimmed = path.endsWith("/") ? path.slice(0, -1) : path;
  if (!trimmed.startsWith("/") || FORBIDDEN_CHARACTERS.test(trimmed)) return undefined;
  const segments = trimmed.split("/").slice(1);
  return segments.some((segment) => segment === "" || segment === "." || segment === "..")
    ? undefined
    : trimmed;
}

/** Returns whether the normalized `path` equals `prefix` or is below it at a `/` boundary. */
export function isWithin(prefix: string, path: string): boolean {
  return prefix === "/" || path === prefix || path.startsWith(`${prefix}/`);
}

/**
 * Returns whether one request can satisfy all of these constraints: they name the same resource, and of any
 * two prefixes, one is within the other (wire format §7).
 */
export function areNested(constraints: readonly ResourcePath[]): boolean {
  const [first, ...others] = constraints;
  if (others.some((other) => other.resource_id !== first?.resource_id)) return false;
  const prefixes = constraints.map(({ path_prefix }) => normalizePath(path_prefix ?? "/"));
  const sorted = prefixes.filter((prefix) => prefix !== undefined).sort((a, b) => a.length - b.length);
  if (sorted.length < constraints.length) return false;
  return sorted.every((prefix, index) => index === 0 || isWithin(sorted[index - 1] ?? "/", prefix));
}

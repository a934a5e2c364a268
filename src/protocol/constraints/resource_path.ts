/** Limits an action to one resource and, with a prefix, to a part of it (wire format §7). */
export type ResourcePath = {
  type: "resource_path";
  resource_id: string;
  path_prefix?: string;
};

const FORBIDDEN_CHARACTERS = /[\0\\]/;

/**
 * A path in the one form that is compared: absolute, `/`-separated, no empty, `.` or `..` segment, no NUL, no
 * backslash, a trailing `/` trimmed except on `/` itself; `%` is an ordinary character (wire format §7).
 * `undefined` when it is no such path.
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

/** Whether normalized `path` is `prefix` or lies below it at a `/` boundary. */
export function isWithin(prefix: string, path: string): boolean {
  return prefix === "/" || path === prefix || path.startsWith(`${prefix}/`);
}

/**
 * Whether one request can satisfy all of them: they name one resource, and of any two prefixes one lies
 * within the other (wire format §7). It is false for prefixes that are not paths.
 */
export function areNested(constraints: readonly ResourcePath[]): boolean {
  const [first, ...others] = constraints;
  if (others.some((other) => other.resource_id !== first?.resource_id)) return false;
  const prefixes = constraints.map(({ path_prefix }) => normalizePath(path_prefix ?? "/"));
  const sorted = prefixes.filter((prefix) => prefix !== undefined).sort((a, b) => a.length - b.length);
  if (sorted.length < constraints.length) return false;
  return sorted.every((prefix, index) => index === 0 || isWithin(sorted[index - 1] ?? "/", prefix));
}

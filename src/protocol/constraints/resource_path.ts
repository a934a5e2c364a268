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

const ENCODED_BYTE = /%(?:u00)?([0-9a-f]{2})/gi;
/** Decoders that accept overlong UTF-8 also read these bytes as `.` and as `/`. */
const OVERLONG_DOT = /\xc0\xae|\xe0\x80\xae/g;
const OTHER_SEPARATORS = /\\|\xc0\xaf|\xe0\x80\xaf/g;
const MOST_ENCODINGS = 3;

/** Parts of a segment that servers ignore: parameters, query, fragment, and spaces at the end (Windows). */
const AFTER_SEGMENT = /[;?#][^/]*|(?<! ) +(?=\/|$)/g;

/** The rule that {@link hidesDotSegment} checks, as the end of a message. */
export const HIDDEN_DOT_SEGMENT =
  "must not contain . or .. segments that are encoded, have parameters or consist of look-alikes";

/**
 * Returns whether a server that decodes `path` can read a `.` or `..` segment that {@link normalizePath} does
 * not see. Such a segment is percent-encoded, up to three times, or has parameters (`..;x`), a query, a
 * fragment (`..#x`) or spaces at its end. It can also consist of characters that Unicode's form NFKC turns
 * into dots and slashes, such as U+2025. Also returns true for an encoded control character and for text that
 * is still encoded after three decodings.
 */
export function hidesDotSegment(path: string): boolean {
  if (hasDotSegment(path)) return false;
  const text = decodeFully(path);
  if (decoded(text) !== text) return true;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a control character ends a path for some servers
  if (text !== path && /[\0-\x1f\x7f]/.test(text)) return true;
  return [text, decodeFully(compatible(text))].some((read) =>
    hasDotSegment(read.replace(OVERLONG_DOT, ".").replace(OTHER_SEPARATORS, "/").replace(AFTER_SEGMENT, "")),
  );
}

/** Returns the form NFKC of a text in which a character can be one byte of UTF-8. */
function compatible(text: string): string {
  const characters = text.replace(/[\x80-\xff]+/g, (bytes) =>
    new TextDecoder().decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0))),
  );
  return characters.normalize("NFKC");
}

/** Returns a path in which each byte that is percent-encoded, up to three times, is one character. */
export function decodeFully(path: string): string {
  let text = path;
  for (let round = 0; round < MOST_ENCODINGS; round++) text = decoded(text);
  return text;
}

function decoded(text: string): string {
  return text.replace(ENCODED_BYTE, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

function hasDotSegment(path: string): boolean {
  return path.split("/").some((segment) => segment === "." || segment === "..");
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

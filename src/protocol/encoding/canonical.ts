import { ProtocolError } from "./errors.ts";

const KEYS_BEYOND_UTF16_ORDER = /[\ud800-\uffff]/;

/** Maximum nesting. No document of the wire format has more levels, and this many fit on the call stack. */
const MAX_DEPTH = 64;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;

/**
 * Returns the canonical JSON of `value`, the form that is signed (wire format §3). It follows RFC 8785, but
 * sorts keys by UTF-8 bytes and escapes U+2028 and U+2029. Omits members that are `undefined`.
 *
 * Throws `ProtocolError`:
 * - `unsupported_value` for values that JSON cannot represent
 * - `invalid_number` for numbers that are not finite, and whole numbers outside ±(2^53−1)
 * - `invalid_utf8` for text with a lone surrogate
 * - `too_deep` for more than 64 levels of nesting
 */
export function canonicalJson(value: unknown): string {
  const json = JSON.stringify(ordered(value, 0));
  return json.includes("\u2028") || json.includes("\u2029") ? escapeLineSeparators(json) : json;
}

/** Returns {@link canonicalJson} as UTF-8 bytes. */
export function canonicalBytes(value: unknown): Uint8Array {
  return Buffer.from(canonicalJson(value), "utf8");
}

/** Compares two strings by their UTF-8 bytes, which is the order of code points, not of UTF-16 units. */
export function compareUtf8(left: string, right: string): number {
  if (left === right) return 0;
  if (!KEYS_BEYOND_UTF16_ORDER.test(left) || !KEYS_BEYOND_UTF16_ORDER.test(right)) {
    return left < right ? -1 : 1;
  }
  return Buffer.compare(Buffer.from(left, "utf8"), Buffer.from(right, "utf8"));
}

function escapeLineSeparators(json: string): string {
  return json.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}

/** Copies a value with its keys sorted, so that `JSON.stringify` writes them in that order. */
function ordered(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case "string":
      return wellFormed(value);
    case "number":
      return finite(value);
    case "boolean":
      return value;
    case "object":
      if (value === null) return value;
      if (depth >= MAX_DEPTH) throw new ProtocolError("too_deep", `more than ${MAX_DEPTH} levels of nesting`);
      return Array.isArray(value) ? orderedItems(value, depth + 1) : orderedMembers(value, depth + 1);
    default:
      throw new ProtocolError("unsupported_value", `a ${typeof value} has no canonical form`);
  }
}

function wellFormed(text: string): string {
  if (!text.isWellFormed()) throw new ProtocolError("invalid_utf8", "text with a lone surrogate");
  return text;
}

function finite(value: number): number {
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
    throw new ProtocolError("invalid_number", `${value} has no canonical form`);
  }
  return value;
}

function orderedItems(items: readonly unknown[], depth: number): unknown[] {
  return Array.from(items, (item) => ordered(item, depth));
}

function orderedMembers(value: object, depth: number): object {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new ProtocolError("unsupported_value", "only plain objects and arrays have a canonical form");
  }
  const members = value as Record<string, unknown>;
  const keys = Object.keys(members);
  const sorted = isSorted(keys) ? keys : keys.sort(compareUtf8);
  const copy: Record<string, unknown> = sorted.some(isOrderedByRuntime) ? inOrder(sorted) : {};
  for (const key of sorted) {
    const member = members[key];
    if (member !== undefined) copy[wellFormed(key)] = ordered(member, depth);
  }
  return copy;
}

function isSorted(keys: readonly string[]): boolean {
  return keys.every((key, index) => index === 0 || compareUtf8(keys[index - 1] ?? "", key) < 0);
}

/** Returns whether a plain object would not list a key in place: integer-like keys and `__proto__`. */
function isOrderedByRuntime(key: string): boolean {
  const first = key.charCodeAt(0);
  return (first >= DIGIT_0 && first <= DIGIT_9) || key === "__proto__";
}

/** Returns an object without a prototype that lists its own keys in the order of `keys`. */
function inOrder(keys: readonly string[]): Record<string, unknown> {
  const members: Record<string, unknown> = Object.create(null);
  return new Proxy(members, { ownKeys: () => keys.filter((key) => Object.hasOwn(members, key)) });
}

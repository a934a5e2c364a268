import { ProtocolError } from "./errors.ts";

const KEYS_BEYOND_UTF16_ORDER = /[\ud800-\uffff]/;

/** Deeper than any document of the format may be, and well within the stack. */
const MAX_DEPTH = 64;

/**
 * The one text of `value` that is signed (wire format §3): RFC 8785 with keys sorted by UTF-8 byte order at every level and
 * U+2028 and U+2029 escaped. Members that are `undefined` are left out, as optional fields are.
 *
 * @throws ProtocolError `unsupported_value` for what JSON cannot carry, `invalid_number` for numbers that are not finite or are
 * whole and outside ±(2^53−1), `invalid_utf8` for text with a lone surrogate, `too_deep` for nesting over 64
 */
export function canonicalJson(value: unknown): string {
  const json = canonical(value, 0);
  return json.includes("\u2028") || json.includes("\u2029") ? escapeLineSeparators(json) : json;
}

/** UTF-8 bytes of {@link canonicalJson}. */
export function canonicalBytes(value: unknown): Uint8Array {
  return Buffer.from(canonicalJson(value), "utf8");
}

/** Orders two texts as their UTF-8 bytes are ordered, that is by code point and not by UTF-16 unit. */
export function compareUtf8(left: string, right: string): number {
  if (left === right) return 0;
  if (!KEYS_BEYOND_UTF16_ORDER.test(left) || !KEYS_BEYOND_UTF16_ORDER.test(right))
    return left < right ? -1 : 1;
  return Buffer.compare(Buffer.from(left, "utf8"), Buffer.from(right, "utf8"));
}

function canonical(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      return canonicalText(value);
    case "number":
      return canonicalNumber(value);
    case "boolean":
      return value ? "true" : "false";
    case "object":
      return value === null ? "null" : canonicalStructure(value, depth + 1);
    default:
      throw new ProtocolError("unsupported_value", `a ${typeof value} has no canonical form`);
  }
}

function canonicalText(text: string): string {
  if (!text.isWellFormed()) throw new ProtocolError("invalid_utf8", "text with a lone surrogate");
  return JSON.stringify(text);
}

function escapeLineSeparators(json: string): string {
  return json.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}

function canonicalNumber(value: number): string {
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
    throw new ProtocolError("invalid_number", `${value} has no canonical form`);
  }
  return String(value);
}

function canonicalStructure(value: object, depth: number): string {
  if (depth > MAX_DEPTH) throw new ProtocolError("too_deep", `nesting over ${MAX_DEPTH}`);
  if (Array.isArray(value)) return `[${Array.from(value, (item) => canonical(item, depth)).join(",")}]`;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new ProtocolError("unsupported_value", "only plain objects and arrays have a canonical form");
  }
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([left], [right]) => compareUtf8(left, right));
  return `{${members.map(([key, member]) => `${canonicalText(key)}:${canonical(member, depth)}`).join(",")}}`;
}

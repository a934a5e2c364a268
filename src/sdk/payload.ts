import { createHash } from "node:crypto";
import { canonicalBytes } from "../protocol/encoding/canonical.ts";
import { ProtocolError } from "../protocol/encoding/errors.ts";

const MAX_DEPTH = 64;

/**
 * Returns a deep copy that no other code can change. Plain data (objects, arrays, strings, numbers, booleans,
 * null) is frozen at every level. Members that are `undefined` are omitted. Bytes are copied. Throws
 * `ProtocolError` `too_deep` for more than 64 levels of nesting, and TypeError for any other value.
 */
export function frozenCopy(value: unknown): unknown {
  if (value === undefined) return undefined;
  if (value instanceof Uint8Array) {
    const copy = Buffer.alloc(value.length);
    copy.set(value);
    return copy;
  }
  return copyOf(value, 0);
}

/**
 * Returns a payload's SHA-256, 32 bytes, or `undefined` without a payload. Bytes are hashed unchanged, and
 * any other payload as canonical JSON. Throws `ProtocolError` for a payload without a canonical form: a lone
 * surrogate, a number that is not finite, or a whole number outside ±(2^53−1).
 */
export function payloadDigest(payload: unknown): Uint8Array | undefined {
  if (payload === undefined) return undefined;
  const bytes = payload instanceof Uint8Array ? payload : canonicalBytes(payload);
  return createHash("sha256").update(bytes).digest();
}

function copyOf(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return value === 0 ? 0 : value;
    case "object":
      return value === null ? null : copyOfObject(value, depth + 1);
    default:
      throw new TypeError(`a payload must be plain data, not a ${typeof value}`);
  }
}

function copyOfObject(value: object, depth: number): unknown {
  if (depth > MAX_DEPTH) throw new ProtocolError("too_deep", `more than ${MAX_DEPTH} levels of nesting`);
  if (Array.isArray(value)) return Object.freeze(Array.from(value, (item) => copyOf(item, depth)));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new TypeError("a payload must be plain data, not an instance of a class");
  }
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([key, member]) => [key, copyOf(member, depth)]);
  return Object.freeze(Object.fromEntries(members));
}

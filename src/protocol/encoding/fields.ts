import { checkBase64 } from "./base64.ts";
import { MAX_IDENTIFIER_LENGTH_BYTES } from "./constants.ts";
import { ProtocolError } from "./errors.ts";
import { Decimal, type JsonObject, type JsonValue } from "./json.ts";

/** Returns whether `text` has at most `limit` UTF-8 bytes. */
export function fitsBytes(text: string, limit: number): boolean {
  return text.length <= limit && (text.length * 3 <= limit || Buffer.byteLength(text, "utf8") <= limit);
}

/** Converts a parsed value to type `T`. Throws {@link ProtocolError} with the path to the fault. */
export type Decoder<T> = (value: JsonValue) => T;

type Fields = Record<string, Decoder<unknown>>;
type Decoded<R extends Fields, O extends Fields> = { [K in keyof R]: ReturnType<R[K]> } & {
  [K in keyof O]?: ReturnType<O[K]>;
};

/**
 * Returns a decoder for objects with all `required` members (not null), any `optional` ones, and no others.
 */
export function object<R extends Fields, O extends Fields = Record<never, never>>(
  required: R,
  optional?: O,
): Decoder<Decoded<R, O>> {
  const fields = [
    ...Object.entries(required).map(([name, decode]) => ({ name, decode, isRequired: true })),
    ...Object.entries(optional ?? {}).map(([name, decode]) => ({ name, decode, isRequired: false })),
  ];
  return (value) => {
    const members = asObject(value);
    const decoded: Record<string, unknown> = {};
    let known = 0;
    for (const { name, decode, isRequired } of fields) {
      const member = Object.hasOwn(members, name) ? members[name] : undefined;
      if (isRequired && (member === undefined || member === null)) {
        throw new ProtocolError("missing_field", name);
      }
      if (member === undefined) continue;
      known += 1;
      decoded[name] = inside(name, decode, member);
    }
    if (Object.keys(members).length > known) {
      throw new ProtocolError("unknown_field", "a member that does not belong here");
    }
    return decoded as Decoded<R, O>;
  };
}

/** A decoder that recognizes the sources of values that it decoded and kept earlier. */
export type KeepingDecoder<T> = Decoder<T> & {
  /**
   * Deeply freezes `value`, which this decoder returned, and `source`. From then on, decoding this same
   * `source` object returns the same `value` object.
   */
  keep(value: T, source?: JsonObject): T;
  /** Returns whether `value` was passed to `keep`. */
  isKept(value: T): boolean;
};

/** Wraps `decode` in a decoder that returns the kept value if it gets the source of that value. */
export function keeping<T extends object>(decode: Decoder<T>): KeepingDecoder<T> {
  const kept = new WeakSet<object>();
  const bySource = new WeakMap<object, T>();
  const known = (value: JsonValue) =>
    typeof value === "object" && value !== null ? bySource.get(value) : undefined;
  const decoder = (value: JsonValue) => known(value) ?? decode(value);
  return Object.assign(decoder, {
    keep(value: T, source?: JsonObject) {
      kept.add(freeze(value));
      if (source !== undefined) bySource.set(freeze(source), value);
      return value;
    },
    isKept: (value: T) => kept.has(value),
  });
}

function freeze<T extends object>(value: T): T {
  for (const member of Object.values(value)) {
    if (typeof member === "object" && member !== null) freeze(member);
  }
  return Object.freeze(value);
}

/** Returns a decoder for arrays of at most `limit` items. */
export function list<T>(item: Decoder<T>, limit = Number.POSITIVE_INFINITY): Decoder<T[]> {
  return (value) => {
    if (!Array.isArray(value)) throw wrongType("an array");
    if (value.length > limit) {
      throw new ProtocolError("limit_exceeded", `${value.length} items, at most ${limit}`);
    }
    return value.map((member, index) => inside(index, item, member));
  };
}

/** Returns a decoder for strings of at most `limit` UTF-8 bytes. */
export function text(limit = Number.POSITIVE_INFINITY): Decoder<string> {
  return (value) => {
    if (typeof value !== "string") throw wrongType("a string");
    if (!fitsBytes(value, limit)) throw new ProtocolError("limit_exceeded", `more than ${limit} bytes`);
    return value;
  };
}

/** Returns a decoder like `decode` that rejects empty values, which senders must omit instead. */
export function nonEmpty<T extends { length: number }>(decode: Decoder<T>): Decoder<T> {
  return (value) => {
    const decoded = decode(value);
    if (decoded.length === 0) throw new ProtocolError("missing_field", "must not be empty");
    return decoded;
  };
}

/** Decodes an identifier: a non-empty string of at most 512 UTF-8 bytes (wire format §1). */
export const identifier: Decoder<string> = nonEmpty(text(MAX_IDENTIFIER_LENGTH_BYTES));

/** Returns a decoder for plain integers of at least `min`, inside ±(2^53−1). */
export function integer(min = Number.MIN_SAFE_INTEGER): Decoder<number> {
  return (value) => {
    if (value instanceof Decimal) {
      throw new ProtocolError("invalid_integer", "not written as a plain integer");
    }
    if (typeof value === "bigint") throw new ProtocolError("invalid_integer", "outside ±(2^53−1)");
    if (typeof value !== "number") throw wrongType("an integer");
    if (!Number.isSafeInteger(value) || value < min) {
      throw new ProtocolError("invalid_integer", "out of range");
    }
    return value;
  };
}

/** Decodes Unix seconds, which are not negative because the challenge bytes contain them unsigned. */
export const timestamp: Decoder<number> = integer(0);

/** Decodes a number that may have a fraction or an exponent. */
export const float: Decoder<number> = (value) => {
  const number = value instanceof Decimal ? value.value : value;
  if (typeof number === "bigint") throw new ProtocolError("invalid_number", "outside ±(2^53−1)");
  if (typeof number !== "number") throw wrongType("a number");
  if (!Number.isFinite(number)) throw new ProtocolError("invalid_number", "not finite");
  return number;
};

/** Returns a decoder for canonical base64 of `length` bytes (default: any). The result is still base64. */
export function base64(length?: number): Decoder<string> {
  return (value) => {
    if (typeof value !== "string") throw wrongType("a base64 string");
    checkBase64(value, length);
    return value;
  };
}

/** Returns the value as an object with any members. Throws {@link ProtocolError} `wrong_type`. */
export function asObject(value: JsonValue): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Decimal) {
    throw wrongType("an object");
  }
  return value;
}

function inside<T>(name: string | number, decode: Decoder<T>, value: JsonValue): T {
  try {
    return decode(value);
  } catch (error) {
    throw error instanceof ProtocolError ? error.inside(String(name)) : error;
  }
}

function wrongType(expected: string): ProtocolError {
  return new ProtocolError("wrong_type", `must be ${expected}`);
}

import { checkBase64 } from "./base64.ts";
import { MAX_IDENTIFIER_LENGTH_BYTES } from "./constants.ts";
import { ProtocolError } from "./errors.ts";
import { Decimal, type JsonObject, type JsonValue } from "./json.ts";

/** Whether `text` has at most `limit` UTF-8 bytes. */
export function fitsBytes(text: string, limit: number): boolean {
  return text.length <= limit && (text.length * 3 <= limit || Buffer.byteLength(text, "utf8") <= limit);
}

/** Whether `text` can be an identifier: not empty, and encodable as UTF-8. */
export function isIdentifier(text: string, limit: number): boolean {
  return text !== "" && text.isWellFormed() && fitsBytes(text, limit);
}

/** Gives a value its type or throws {@link ProtocolError} saying where it has another one. */
export type Decoder<T> = (value: JsonValue) => T;

type Fields = Record<string, Decoder<unknown>>;
type Decoded<R extends Fields, O extends Fields> = { [K in keyof R]: ReturnType<R[K]> } & {
  [K in keyof O]?: ReturnType<O[K]>;
};

/** An object with all of `required`, none of them null, perhaps some of `optional`, and nothing else. */
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

/** A decoder that knows again what it decoded, where somebody kept that. */
export type KeepingDecoder<T> = Decoder<T> & {
  /**
   * Makes a value that this decoder gave unchangeable, with all that is in it, and so `source`: whenever that
   * very object is decoded, it is this value.
   */
  keep(value: T, source?: JsonObject): T;
  /** Whether a value was kept. */
  isKept(value: T): boolean;
};

/** As `decode`, but for what kept values were decoded from. */
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

/** An array of at most `limit` items. */
export function list<T>(item: Decoder<T>, limit = Number.POSITIVE_INFINITY): Decoder<T[]> {
  return (value) => {
    if (!Array.isArray(value)) throw wrongType("an array");
    if (value.length > limit) {
      throw new ProtocolError("limit_exceeded", `${value.length} items, at most ${limit}`);
    }
    return value.map((member, index) => inside(index, item, member));
  };
}

/** Text of at most `limit` UTF-8 bytes. */
export function text(limit = Number.POSITIVE_INFINITY): Decoder<string> {
  return (value) => {
    if (typeof value !== "string") throw wrongType("a string");
    if (!fitsBytes(value, limit)) throw new ProtocolError("limit_exceeded", `more than ${limit} bytes`);
    return value;
  };
}

/** As `decode`, and not empty: for what is left out rather than sent empty. */
export function nonEmpty<T extends { length: number }>(decode: Decoder<T>): Decoder<T> {
  return (value) => {
    const decoded = decode(value);
    if (decoded.length === 0) throw new ProtocolError("missing_field", "present, but empty");
    return decoded;
  };
}

/** Text that names something: not empty, at most 512 UTF-8 bytes (wire format §1). */
export const identifier: Decoder<string> = nonEmpty(text(MAX_IDENTIFIER_LENGTH_BYTES));

/** A plain integer, at least `min`, inside ±(2^53−1). */
export function integer(min = Number.MIN_SAFE_INTEGER): Decoder<number> {
  return (value) => {
    if (value instanceof Decimal) {
      throw new ProtocolError("invalid_integer", "not written as a plain integer");
    }
    if (typeof value !== "number") throw wrongType("an integer");
    if (!Number.isSafeInteger(value) || value < min) {
      throw new ProtocolError("invalid_integer", "out of range");
    }
    return value;
  };
}

/** Unix seconds, from 1970 on: what fits the unsigned field of the challenge bytes. */
export const timestamp: Decoder<number> = integer(0);

/** A number that may have a fraction or an exponent. */
export const float: Decoder<number> = (value) => {
  const number = value instanceof Decimal ? value.value : value;
  if (typeof number !== "number") throw wrongType("a number");
  if (!Number.isFinite(number)) throw new ProtocolError("invalid_number", "not finite");
  return number;
};

/** Canonical base64 of exactly `length` bytes, or of any number when left out; stays text. */
export function base64(length?: number): Decoder<string> {
  return (value) => {
    if (typeof value !== "string") throw wrongType("a base64 string");
    checkBase64(value, length);
    return value;
  };
}

/** An object, whatever its members. */
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
  return new ProtocolError("wrong_type", `not ${expected}`);
}

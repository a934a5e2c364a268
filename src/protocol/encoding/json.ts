import { isAscii, isUtf8 } from "node:buffer";
import { MAX_JSON_NESTING_DEPTH, MAX_PROOF_BUNDLE_BYTES } from "./constants.ts";
import { ProtocolError } from "./errors.ts";
import { JsonReader, type KnownPlace, PLACEHOLDER, type ReaderSettings } from "./json_reader.ts";
import { Decimal, type JsonMemo, type JsonValue, type PlacedValue } from "./json_values.ts";

export { Decimal, type JsonMemo, type JsonObject, type JsonValue, type PlacedValue } from "./json_values.ts";

/** Limits of a document: total bytes, and levels of nested objects and arrays. */
export type JsonLimits = {
  bytes: number;
  depth: number;
  /** With `"mark"`, whole numbers outside ±(2^53−1) become `bigint`s. Refused by default. */
  largeNumbers?: "mark";
};

const DOCUMENT_LIMITS: JsonLimits = { bytes: MAX_PROOF_BUNDLE_BYTES, depth: MAX_JSON_NESTING_DEPTH };

/**
 * Parses one JSON document (RFC 8259) as strictly as wire format §5 requires, in time linear to its size.
 * Does not parse values again that `memo` remembers.
 *
 * Throws `ProtocolError` `too_large`, `invalid_utf8` (also for an escaped lone surrogate), `invalid_json`,
 * `too_deep`, `duplicate_key`, `invalid_integer` (a plain integer outside ±(2^53−1)) or `invalid_number`.
 */
export function parseJson(
  bytes: Uint8Array,
  limits: JsonLimits = DOCUMENT_LIMITS,
  memo?: JsonMemo,
): JsonValue {
  if (bytes.length > limits.bytes) {
    throw new ProtocolError("too_large", `${bytes.length} bytes, at most ${limits.bytes} are read`);
  }
  const document = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const known = memo?.find(document) ?? [];
  const { depth: maxDepth, largeNumbers = "refuse" } = limits;
  const settings: ReaderSettings = { maxDepth, largeNumbers, memo };
  return (known.length > 0 ? readAround(known, document, settings) : undefined) ?? read(document, settings);
}

function read(document: Buffer, settings: ReaderSettings): JsonValue {
  if (!isUtf8(document)) throw new ProtocolError("invalid_utf8", "the document is not well-formed UTF-8");
  return new JsonReader(document, settings).readDocument();
}

/**
 * Parses a document with a placeholder character for each known value. Returns `undefined` if this fails. The
 * caller then parses the whole document, which throws the right error.
 */
function readAround(
  known: readonly PlacedValue[],
  document: Buffer,
  settings: ReaderSettings,
): JsonValue | undefined {
  const parts: Buffer[] = [];
  const places: KnownPlace[] = [];
  let [from, length] = [0, 0];
  for (const { start, end, value, depth } of known) {
    parts.push(document.subarray(from, start), PLACEHOLDER);
    length += start - from;
    places.push({ at: length, value, depth });
    length += PLACEHOLDER.length;
    from = end;
  }
  const rest = Buffer.concat([...parts, document.subarray(from)]);
  if (!isAscii(rest)) return undefined;
  try {
    return new JsonReader(rest, settings, places).readDocument();
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/** Converts a parsed value to plain values, and each {@link Decimal} to its number. Keeps marked numbers. */
export function plainJson(value: JsonValue): unknown {
  if (value instanceof Decimal) return value.value;
  if (Array.isArray(value)) return value.map(plainJson);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plainJson(member)]));
}

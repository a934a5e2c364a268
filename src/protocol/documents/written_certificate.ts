import { isDeepStrictEqual } from "node:util";
import { asObject } from "../encoding/fields.ts";
import { type JsonObject, type JsonValue, type PlacedValue, parseJson } from "../encoding/json.ts";
import { type HybridPublicKey, publicKey } from "../keys/hybrid.ts";
import { certificate, type DelegationCert } from "./certificate.ts";

/** A decoded certificate and its bytes in a document. It must never be changed. */
export type WrittenCertificate = {
  value: DelegationCert;
  /**
   * The parsed value of the certificate. The parser may return this value wherever these bytes occur, even
   * where they are ordinary JSON and not a certificate.
   */
  source: JsonObject;
  bytes: Buffer;
  /** The first 64 bytes, which are the lookup key. */
  start: string;
  depth: number;
  /** Position of the subject's key within `bytes`. */
  subjectKey: { from: number; to: number } | undefined;
};

const START_BYTES = 64;
const DELEGATIONS = Buffer.from('"delegations":');
const SUBJECT_KEY = Buffer.from('"subject_pub_key":');
const AGENT_KEY = Buffer.from('"agent_pub_key":');
const [COMMA, BRACKET, BRACE] = [0x2c, 0x5b, 0x7d];
const [TAB, NEWLINE, RETURN, SPACE] = [0x09, 0x0a, 0x0d, 0x20];
const KEY_DEPTH = 1;

/** Decodes a certificate from a copy of its bytes in a document, so that it does not retain the document. */
export function readWritten(part: Buffer): WrittenCertificate {
  const bytes = Buffer.from(part);
  // Needs no limits, because the parser has already checked the certificate against its document's limits.
  const read = asObject(parseJson(bytes, { bytes: bytes.length, depth: Number.POSITIVE_INFINITY }));
  const value = certificate.keep(certificate(read), read);
  publicKey.keep(value.subject_pub_key, keyOf(read));
  const start = bytes.toString("latin1", 0, START_BYTES);
  const subjectKey = keyWithin(bytes, value.subject_pub_key);
  return { value, source: read, bytes, start, depth: depthOf(read), subjectKey };
}

/**
 * Returns the position of the subject's key, an object of two strings without braces. Compares its content
 * too, because an extension may have a member with the same name.
 */
function keyWithin(bytes: Buffer, key: HybridPublicKey): { from: number; to: number } | undefined {
  const from = valueOffset(bytes, SUBJECT_KEY);
  const to = bytes.indexOf(BRACE, from) + 1;
  if (to === 0) return undefined;
  const text = bytes.toString("utf8", from, to);
  return isDeepStrictEqual(jsonOf(text), key) ? { from, to } : undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function keyOf({ subject_pub_key: key }: JsonObject): JsonObject {
  return asObject(key as JsonValue);
}

/**
 * Finds known certificates of a proof in a document, and the agent's key if its bytes equal the leaf's
 * subject key. `written` returns the known certificate that begins with the given bytes. Searches for bytes
 * only. The document's parser checks whether values are allowed at these positions.
 */
export function findWritten(
  document: Buffer,
  written: (start: string) => WrittenCertificate | undefined,
): PlacedValue[] {
  const found: PlacedValue[] = [];
  let at = valueOffset(document, DELEGATIONS);
  if (document[at] !== BRACKET) return found;
  do {
    const start = pastSpace(document, at + 1);
    const known = written(document.toString("latin1", start, start + START_BYTES));
    if (known === undefined || !standsAt(document, start, known.bytes)) break;
    if (found.length === 0) found.push(...agentKey(document, start, known));
    const { bytes, source, depth } = known;
    found.push({ start, end: start + bytes.length, value: source, depth });
    at = pastSpace(document, start + bytes.length);
  } while (document[at] === COMMA);
  return found;
}

function agentKey(document: Buffer, before: number, leaf: WrittenCertificate): PlacedValue[] {
  const start = valueOffset(document, AGENT_KEY);
  if (leaf.subjectKey === undefined || start >= before) return [];
  const bytes = leaf.bytes.subarray(leaf.subjectKey.from, leaf.subjectKey.to);
  if (!standsAt(document, start, bytes)) return [];
  return [{ start, end: start + bytes.length, value: keyOf(leaf.source), depth: KEY_DEPTH }];
}

/** Returns the offset of the first value of a member with this name, or the end of the document. */
function valueOffset(document: Buffer, name: Buffer): number {
  const at = document.indexOf(name);
  return at === -1 ? document.length : pastSpace(document, at + name.length);
}

function standsAt(document: Buffer, at: number, bytes: Buffer): boolean {
  const end = at + bytes.length;
  return end <= document.length && bytes.compare(document, at, end) === 0;
}

function pastSpace(document: Buffer, from: number): number {
  let at = from;
  while (isSpace(document[at])) at += 1;
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === NEWLINE || byte === RETURN || byte === TAB;
}

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Object.values(value).reduce((depth: number, member) => Math.max(depth, depthOf(member)), 0);
}

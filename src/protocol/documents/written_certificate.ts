import { isDeepStrictEqual } from "node:util";
import { asObject } from "../encoding/fields.ts";
import { type JsonObject, type JsonValue, type PlacedValue, parseJson } from "../encoding/json.ts";
import { type HybridPublicKey, publicKey } from "../keys/hybrid.ts";
import { certificate, type DelegationCert } from "./certificate.ts";

/** A certificate, never to be changed, as it stood in a document. */
export type WrittenCertificate = {
  value: DelegationCert;
  /** What the parser gives for it: wherever that is not decoded as a certificate, it is like any other. */
  source: JsonObject;
  bytes: Buffer;
  /** The first of the bytes, by which it is looked for: `cert_id` is among them where it comes first. */
  start: string;
  /** How many objects and arrays it opens at a time. */
  depth: number;
  /** Where its subject's key was written within it. */
  subjectKey: { from: number; to: number } | undefined;
};

const START_BYTES = 64;
const DELEGATIONS = Buffer.from('"delegations":');
const SUBJECT_KEY = Buffer.from('"subject_pub_key":');
const AGENT_KEY = Buffer.from('"agent_pub_key":');
const [COMMA, BRACKET, BRACE] = [0x2c, 0x5b, 0x7d];
const [TAB, NEWLINE, RETURN, SPACE] = [0x09, 0x0a, 0x0d, 0x20];
const KEY_DEPTH = 1;

/** Reads a certificate once more, from a copy of its part of a document. */
export function readWritten(part: Buffer): WrittenCertificate {
  const bytes = Buffer.from(part);
  // It was within the limits of its document, which may have been wider than those of a bundle.
  const read = asObject(parseJson(bytes, { bytes: bytes.length, depth: Number.POSITIVE_INFINITY }));
  const value = certificate.keep(certificate(read), read);
  publicKey.keep(value.subject_pub_key, keyOf(read));
  const start = bytes.toString("latin1", 0, START_BYTES);
  const subjectKey = keyWithin(bytes, value.subject_pub_key);
  return { value, source: read, bytes, start, depth: depthOf(read), subjectKey };
}

/** A key is an object of two texts without a brace. An extension may have a member of that name. */
function keyWithin(bytes: Buffer, key: HybridPublicKey): { from: number; to: number } | undefined {
  const from = behind(bytes, SUBJECT_KEY);
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
 * The certificates of a proof that stand in a document, and its agent's key where it is written as its leaf's
 * subject's. `written` knows those that begin so. That a document is right about where they stand is for its
 * reader to see.
 */
export function findWritten(
  document: Buffer,
  written: (start: string) => WrittenCertificate | undefined,
): PlacedValue[] {
  const found: PlacedValue[] = [];
  let at = behind(document, DELEGATIONS);
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
  const start = behind(document, AGENT_KEY);
  if (leaf.subjectKey === undefined || start >= before) return [];
  const bytes = leaf.bytes.subarray(leaf.subjectKey.from, leaf.subjectKey.to);
  if (!standsAt(document, start, bytes)) return [];
  return [{ start, end: start + bytes.length, value: keyOf(leaf.source), depth: KEY_DEPTH }];
}

/** Where the value of the first member with that name begins; the end of the document where there is none. */
function behind(document: Buffer, name: Buffer): number {
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

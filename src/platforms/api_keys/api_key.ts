import { createHash, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";
import type { KeyRole } from "../../route.ts";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PREFIX_LENGTH = 8;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
/** The first letters of a key. They show the key's role to people and to scanners for secrets. */
const LETTERS: Record<KeyRole, string> = { full: "dpz", agent: "dpza", verify: "dpzv" };
/** `made_with` of the key that the operator stores for an agent's object. Each agent has at most one. */
export const BY_OPERATOR = "operator";
const PREFIX = `(?:dpz|dpza|dpzv)_[0-9A-Za-z]{${PREFIX_LENGTH}}`;
const prefixForm = new RegExp(`^${PREFIX}$`);
const form = new RegExp(`^(${PREFIX})_[0-9A-Za-z]{${SECRET_LENGTH}}_([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`);

/** A new API key: the full key (shown only once), its public prefix, and the hash to store. */
export type NewApiKey = { apiKey: string; prefix: string; hash: Buffer };

/**
 * Creates `dpz_<8 prefix>_<43 secret>_<6 checksum>` in base62, with `dpza_` or `dpzv_` for a narrow role. The
 * secret has 256 bits. The checksum, the
 * CRC-32 of everything before its `_`, lets scanners and the server recognize a typo without a lookup.
 */
export function newApiKey(role: KeyRole = "full"): NewApiKey {
  const prefix = `${LETTERS[role]}_${randomText(PREFIX_LENGTH)}`;
  const body = `${prefix}_${randomText(SECRET_LENGTH)}`;
  const apiKey = `${body}_${checksumOf(body)}`;
  return { apiKey, prefix, hash: hashApiKey(apiKey) };
}

/** Returns the prefix of a well-formed key with a valid checksum, or `undefined` for any other string. */
export function apiKeyPrefix(presented: string): string | undefined {
  const match = form.exec(presented);
  if (match === null) return undefined;
  const body = presented.slice(0, -(CHECKSUM_LENGTH + 1));
  return checksumOf(body) === match[2] ? match[1] : undefined;
}

/** Returns whether a text has the form of a key's public prefix. */
export function isKeyPrefix(text: string): boolean {
  return prefixForm.test(text);
}

/** Returns whether a prefix belongs to a full key. Prefixes of narrow keys begin with other letters. */
export function isFullPrefix(prefix: string): boolean {
  return prefix.startsWith(`${LETTERS.full}_`);
}

/** Returns the SHA-256 of a key, which is the only form in which a key is stored. */
export function hashApiKey(apiKey: string): Buffer {
  return createHash("sha256").update(apiKey).digest();
}

function randomText(length: number): string {
  return Array.from({ length }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join("");
}

function checksumOf(text: string): string {
  let rest = crc32(text);
  let digits = "";
  for (let place = 0; place < CHECKSUM_LENGTH; place += 1) {
    digits = ALPHABET.charAt(rest % ALPHABET.length) + digits;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return digits;
}

/**
 * Encryption context of `connections.undelivered_sealed`: an API key that the operator has not stored yet.
 */
export function undeliveredContext(connectionId: string): string {
  return `connections.undelivered:${connectionId}`;
}

/** Encryption context of `narrow_keys.undelivered_sealed`: a key that the operator has not stored yet. */
export function undeliveredAgentKeyContext(prefix: string): string {
  return `narrow_keys.undelivered:${prefix}`;
}

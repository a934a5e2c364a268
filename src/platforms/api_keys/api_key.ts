import { createHash, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PREFIX_LENGTH = 8;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const form = new RegExp(
  `^(dpz_[0-9A-Za-z]{${PREFIX_LENGTH}})_[0-9A-Za-z]{${SECRET_LENGTH}}_([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`,
);

/** A new API key: the full key (shown only once), its public prefix, and the hash to store. */
export type NewApiKey = { apiKey: string; prefix: string; hash: Buffer };

/**
 * Creates `dpz_<8 prefix>_<43 secret>_<6 checksum>` in base62. The secret has 256 bits. The checksum, the
 * CRC-32 of everything before its `_`, lets scanners and the server recognize a typo without a lookup.
 */
export function newApiKey(): NewApiKey {
  const prefix = `dpz_${randomText(PREFIX_LENGTH)}`;
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

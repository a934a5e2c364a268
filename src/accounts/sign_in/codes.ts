import { createHmac, hkdfSync, randomBytes, randomInt } from "node:crypto";

/** Seconds after which a code of six digits is refused; at 600 it is still good. */
export const CODE_SECONDS = 10 * 60;
/** Wrong codes after which even the right one is refused. */
export const CODE_TRIES = 5;
/** Seconds after which the long code of a link is refused. */
export const LINK_SECONDS = 60 * 60;

/** A code as a call carries it: six digits, or the 32 hex digits of a link. */
export const CODE_FORM = /^([0-9]{6}|[0-9a-f]{32})$/;

/** Keyed hashes: what is stored shows neither addresses nor codes to somebody who reads the database. */
export type CodeHashes = {
  address(email: string): Buffer;
  code(email: string, code: string): Buffer;
  /** Of the cookie by which a browser is known while it signs in. */
  client(cookie: string): Buffer;
};

/** Hashes under a key of their own, derived from the 32-byte sealing key. */
export function createCodeHashes(sealingKey: Uint8Array): CodeHashes {
  const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize sign-in codes v1", 32));
  const mac = (...parts: string[]) => createHmac("sha256", key).update(JSON.stringify(parts)).digest();
  return {
    address: (email) => mac("address", email),
    code: (email, code) => mac("code", email, code),
    client: (cookie) => mac("client", cookie),
  };
}

/** A fresh sign-in code: 6 digits, all equally likely (specification §8). */
export function newCode(): string {
  return randomInt(1_000_000).toString().padStart(6, "0");
}

/** The code of a link: 128 bits in hex, which nobody guesses. */
export function newLinkCode(): string {
  return randomBytes(16).toString("hex");
}

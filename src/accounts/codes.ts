import { createHmac, hkdfSync, randomInt, timingSafeEqual } from "node:crypto";
import { addSeconds } from "../clock.ts";
import type { Database, Transaction } from "../db/connection.ts";

/** Seconds after which a code is refused; at 600 it is still good. */
export const CODE_SECONDS = 10 * 60;
/** Wrong codes after which even the right one is refused. */
export const CODE_TRIES = 5;

/** Keyed hashes: what is stored tells neither addresses nor codes to somebody who reads the database. */
export type CodeHashes = {
  address(email: string): Buffer;
  code(email: string, code: string): Buffer;
};

/** Hashes under a key of their own, derived from the 32-byte sealing key. */
export function createCodeHashes(sealingKey: Uint8Array): CodeHashes {
  const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize sign-in codes v1", 32));
  const mac = (...parts: string[]) => createHmac("sha256", key).update(JSON.stringify(parts)).digest();
  return {
    address: (email) => mac("address", email),
    code: (email, code) => mac("code", email, code),
  };
}

/** A fresh sign-in code: 6 digits, all equally likely (specification §8). */
export function newCode(): string {
  return randomInt(1_000_000).toString().padStart(6, "0");
}

/** Makes `codeHash` the address's only code. Tells whether a code that could still be used was replaced. */
export async function replaceCode(
  db: Database,
  { addressHash, codeHash }: { addressHash: Buffer; codeHash: Buffer },
  now: Date,
): Promise<{ resent: boolean }> {
  const { rows } = await db.raw<{ rows: { resent: boolean }[] }>(
    `with live as (
       select from sign_in_codes where email_hash = :addressHash and expires_at >= :now and tries < :maxTries
     )
     insert into sign_in_codes (email_hash, code_hash, created_at, expires_at)
     values (:addressHash, :codeHash, :now, :expiresAt)
     on conflict (email_hash) do update
     set code_hash = excluded.code_hash, tries = 0, created_at = excluded.created_at, expires_at = excluded.expires_at
     returning exists (select from live) as resent`,
    { addressHash, codeHash, now, expiresAt: addSeconds(now, CODE_SECONDS), maxTries: CODE_TRIES },
  );
  return { resent: rows[0]?.resent ?? false };
}

/**
 * Counts a try before the code is looked at, so that tries made at once cannot outrun the count. Tells whether the code
 * is the address's, not older than 10 minutes and not tried too often; each of these looks the same to the caller.
 */
export async function tryCode(
  db: Database,
  { addressHash, codeHash }: { addressHash: Buffer; codeHash: Buffer },
  now: Date,
): Promise<boolean> {
  const [row] = await db("sign_in_codes")
    .where("email_hash", addressHash)
    .where("expires_at", ">=", now)
    .where("tries", "<", CODE_TRIES)
    .increment("tries", 1)
    .returning("code_hash");
  return row !== undefined && timingSafeEqual(row.code_hash, codeHash);
}

/** Spends a code. False when it was spent, or replaced, since it was tried. */
export async function spendCode(
  tx: Transaction,
  { addressHash, codeHash }: { addressHash: Buffer; codeHash: Buffer },
): Promise<boolean> {
  const spent = await tx("sign_in_codes").where({ email_hash: addressHash, code_hash: codeHash }).delete();
  return spent === 1;
}

import { timingSafeEqual } from "node:crypto";
import type { Database, Transaction } from "../../db/database.ts";
import { CODE_TRIES, OWN_CODES } from "./codes.ts";

/**
 * A code that a caller sent, as hashes. `clientHash` is the browser's, or `null` if the call had no cookie.
 */
export type PresentedCode = { addressHash: Buffer; codeHash: Buffer; clientHash: Buffer | null };

/**
 * A correct code that has not been spent yet. `counted`: the codes against whose limits this try counted, or
 * none for a link code.
 */
export type RightCode = { mailId: string; tried?: "own_tries" | "shared_tries"; counted: string[] };

const VALID_DIGITS = `email_hash = :addressHash and kind = 'digits' and mailed_at is not null
  and ended_at is null and expires_at >= :now`;

/**
 * Checks a six-digit code. Counts the try before comparing the code, so concurrent tries cannot exceed the
 * limit. With `whose: "own"`, compares the newest two codes of the caller's browser. With `"shared"`,
 * compares the code that is valid without a cookie, unless the browser has codes of its own. A try counts
 * against each code that it is compared with.
 *
 * Returns the code if it is correct, and "wrong" if it differs from the valid codes. Returns `undefined` if
 * there is no code to compare with: none exists, it is older than 10 minutes, or it was tried too often.
 */
export async function tryDigits(
  db: Database,
  { addressHash, codeHash, clientHash }: PresentedCode,
  whose: "own" | "shared",
  now: Date,
): Promise<RightCode | "wrong" | undefined> {
  const isOwn = whose === "own";
  const { rows } = await db.raw<{ rows: { mail_id: string; code_hash: Buffer }[] }>(
    `with candidates as (
       select mail_id from sign_in_mails
       where ${VALID_DIGITS} and case when :isOwn then client_hash = :clientHash else shared and not exists (
         select from sign_in_mails where ${VALID_DIGITS} and client_hash = :clientHash) end
       order by mailed_at desc, mail_id desc limit :most for update
     )
     update sign_in_mails m
     set own_tries = own_tries + case when :isOwn then 1 else 0 end,
         shared_tries = shared_tries + case when :isOwn then 0 else 1 end
     from candidates c
     where m.mail_id = c.mail_id and case when :isOwn then own_tries else shared_tries end < :maxTries
     returning m.mail_id, m.code_hash`,
    { addressHash, clientHash, now, isOwn, most: isOwn ? OWN_CODES : 1, maxTries: CODE_TRIES },
  );
  if (rows.length === 0) return undefined;
  const right = rows.find((tried) => timingSafeEqual(tried.code_hash, codeHash));
  if (right === undefined) return "wrong";
  return { mailId: right.mail_id, tried: `${whose}_tries`, counted: rows.map(({ mail_id }) => mail_id) };
}

/** Returns an address's valid link code, for any browser. Nobody can guess it, so tries are not counted. */
export async function findLink(
  db: Database,
  { addressHash, codeHash }: Pick<PresentedCode, "addressHash" | "codeHash">,
  now: Date,
): Promise<RightCode | undefined> {
  const mail = await db("sign_in_mails")
    .where({ email_hash: addressHash, code_hash: codeHash, kind: "link" })
    .whereNotNull("mailed_at")
    .whereNull("ended_at")
    .where("expires_at", ">=", now)
    .first("mail_id");
  return mail === undefined ? undefined : { mailId: mail.mail_id, counted: [] };
}

/**
 * Spends a code and ends the other codes of the same browser. Their emails and this try no longer count
 * against the limits. Returns false if the code was spent or replaced in the meantime.
 */
export async function spendCode(
  tx: Transaction,
  { mailId, tried, counted }: RightCode,
  now: Date,
): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: { mail_id: string }[] }>(
    `select m.mail_id from sign_in_mails m join sign_in_mails right_one
       on right_one.mail_id = :mailId and m.email_hash = right_one.email_hash
     where m.ended_at is null and (m.mail_id = :mailId or (m.client_hash = right_one.client_hash
       and m.kind = 'digits' and right_one.kind = 'digits' and m.mailed_at is not null))
     order by m.mailed_at desc, m.mail_id desc for update of m`,
    { mailId },
  );
  const ids = rows.map(({ mail_id }) => mail_id);
  if (!ids.includes(mailId)) return false;
  await tx("sign_in_mails").whereIn("mail_id", ids).update({ ended_at: now, spent: true });
  if (tried !== undefined) await tx("sign_in_mails").whereIn("mail_id", counted).decrement(tried, 1);
  return true;
}

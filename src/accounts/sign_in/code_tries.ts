import { timingSafeEqual } from "node:crypto";
import type { Database, Transaction } from "../../db/database.ts";
import { CODE_TRIES } from "./codes.ts";

/**
 * A code that a caller sent, as hashes. `clientHash` is the browser's, or `null` if the call had no cookie.
 */
export type PresentedCode = { addressHash: Buffer; codeHash: Buffer; clientHash: Buffer | null };

/** A correct code that has not been spent yet. */
export type RightCode = { mailId: string; tried: "own_tries" | "shared_tries" | undefined };

/**
 * Checks a six-digit code. Counts the try before comparing the code, so concurrent tries cannot exceed the
 * limit. A browser with its own code can try only that code, and any other caller only the code that is valid
 * without a cookie. `whose` selects which of the two codes this call may try.
 *
 * Returns the code if it is correct, and "wrong" if it differs from the valid code. Returns `undefined` if
 * there is no code to compare with: none exists, it is older than 10 minutes, or it was tried too often.
 */
export async function tryDigits(
  db: Database,
  { addressHash, codeHash, clientHash }: PresentedCode,
  whose: "own" | "shared",
  now: Date,
): Promise<RightCode | "wrong" | undefined> {
  const { rows } = await db.raw<{ rows: { mail_id: string; code_hash: Buffer }[] }>(
    `with candidate as (
       select mail_id, coalesce(client_hash = :clientHash, false) as own from sign_in_mails
       where email_hash = :addressHash and kind = 'digits' and mailed_at is not null and ended_at is null
         and expires_at >= :now and (coalesce(client_hash = :clientHash, false) or shared)
       order by own desc, mailed_at desc, mail_id desc limit 1
     )
     update sign_in_mails m
     set own_tries = own_tries + own::int, shared_tries = shared_tries + (not own)::int
     from candidate c
     where m.mail_id = c.mail_id and own = :isOwn and m.ended_at is null and (own or m.shared)
       and case when own then own_tries else shared_tries end < :maxTries
     returning m.mail_id, m.code_hash`,
    { addressHash, clientHash, now, isOwn: whose === "own", maxTries: CODE_TRIES },
  );
  const [tried] = rows;
  if (tried === undefined) return undefined;
  if (!timingSafeEqual(tried.code_hash, codeHash)) return "wrong";
  return { mailId: tried.mail_id, tried: `${whose}_tries` };
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
  return mail === undefined ? undefined : { mailId: mail.mail_id, tried: undefined };
}

/**
 * Spends a code, so that its email and this try no longer count against the limits. Returns false if the code
 * was spent or replaced in the meantime.
 */
export async function spendCode(tx: Transaction, { mailId, tried }: RightCode, now: Date): Promise<boolean> {
  const spent = await tx("sign_in_mails")
    .where({ mail_id: mailId })
    .whereNull("ended_at")
    .update({ ended_at: now, spent: true, ...(tried && { [tried]: tx.raw("?? - 1", [tried]) }) });
  return spent === 1;
}

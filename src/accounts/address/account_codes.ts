import { randomInt, timingSafeEqual } from "node:crypto";
import { addSeconds } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { AccountCodeRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import type { CodeHashes } from "../sign_in/codes.ts";

/** Seconds for which the codes are valid. */
export const ACCOUNT_CODE_SECONDS = 30 * 60;
/** Number of tries after which even the right codes are refused. */
const TRIES = 5;
const DIGITS = 8;

/** Matches a code. Codes are two digits longer than sign-in codes, so that nobody confuses the two. */
export const ACCOUNT_CODE_FORM = new RegExp(`^[0-9]{${DIGITS}}$`);

/** A change to confirm: from `email` to `newEmail`, or the account's deletion if `newEmail` is null. */
export type ToConfirm = { accountId: string; email: string; newEmail: string | null };

/** The codes in the mails: `code` to the account's address, and `newCode` to the new address. */
export type AccountCodes = { code: string; newCode: string };

type Deps = { db: Database; hashes: Pick<CodeHashes, "code"> };

/** Stores new codes, which replace earlier codes of the account. */
export async function storeCodes(
  { db, hashes }: Deps,
  { accountId, email, newEmail }: ToConfirm,
  now: Date,
): Promise<AccountCodes> {
  const [code, newCode] = [newAccountCode(), newAccountCode()];
  await db("account_codes")
    .insert({
      account_id: accountId,
      email,
      code_hash: hashOf(hashes, { email, newEmail }, code),
      new_email: newEmail,
      new_code_hash: newEmail === null ? null : hashOf(hashes, { email: newEmail, newEmail }, newCode),
      tries: 0,
      expires_at: addSeconds(now, ACCOUNT_CODE_SECONDS),
    })
    .onConflict("account_id")
    .merge();
  return { code, newCode };
}

/**
 * Returns what the codes confirm. Counts the try before it compares, so concurrent tries cannot exceed the
 * limit. Throws `invalid_code`. Does not spend the codes: see {@link spendCodes}.
 */
export async function tryCodes(
  { db, hashes }: Deps,
  accountId: string,
  { code, newCode }: { code: string; newCode: string | null },
  now: Date,
): Promise<AccountCodeRow> {
  const [row] = await db("account_codes")
    .where({ account_id: accountId })
    .where("tries", "<", TRIES)
    .where("expires_at", ">=", now)
    .modify((codes) => (newCode === null ? codes.whereNull("new_email") : codes.whereNotNull("new_email")))
    .update({ tries: db.raw("tries + 1") as unknown as number })
    .returning("*");
  if (row === undefined) throw new ApiError("invalid_code");
  const { email, new_email: newEmail, code_hash, new_code_hash } = row;
  const isRight = timingSafeEqual(code_hash, hashOf(hashes, { email, newEmail }, code));
  const isNewRight =
    new_code_hash === null ||
    timingSafeEqual(new_code_hash, hashOf(hashes, { email: newEmail ?? "", newEmail }, newCode ?? ""));
  if (!isRight || !isNewRight) throw new ApiError("invalid_code");
  return row;
}

/** Spends the codes. Throws `invalid_code` if another call spent or replaced them in the meantime. */
export async function spendCodes(tx: Transaction, { account_id, code_hash }: AccountCodeRow): Promise<void> {
  const spent = await tx("account_codes").where({ account_id, code_hash }).delete();
  if (spent !== 1) throw new ApiError("invalid_code");
}

/** Returns the hash of a code, which depends on its recipient and on the change that it confirms. */
function hashOf(
  hashes: Pick<CodeHashes, "code">,
  { email, newEmail }: { email: string; newEmail: string | null },
  code: string,
): Buffer {
  return hashes.code(JSON.stringify(["account", email, newEmail]), code);
}

function newAccountCode(): string {
  return randomInt(10 ** DIGITS)
    .toString()
    .padStart(DIGITS, "0");
}

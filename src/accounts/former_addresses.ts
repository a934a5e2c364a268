import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";

/** Returns whether an account other than `accountId` may still get the address back. */
export async function isReserved(
  tx: Transaction,
  email: string,
  now: Date,
  accountId: string | null = null,
): Promise<boolean> {
  const former = await tx("former_addresses")
    .where({ email })
    .where("expires_at", ">", now)
    .first("account_id");
  return former !== undefined && former.account_id !== accountId;
}

/**
 * Throws `address_changed` while the holder of a former address can still put it back. Otherwise a thief who
 * changed the address could delete the account before its owner reads the mail about the change.
 */
export async function refuseRecentlyChanged(
  db: Database | Transaction,
  accountId: string,
  now: Date,
): Promise<void> {
  const former = await db("former_addresses")
    .where({ account_id: accountId })
    .where("expires_at", ">", now)
    .first("account_id");
  if (former !== undefined) throw new ApiError("address_changed");
}

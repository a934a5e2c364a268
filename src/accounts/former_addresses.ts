import type { Transaction } from "../db/database.ts";

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

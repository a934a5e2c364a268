import type { Transaction } from "../../db/database.ts";

/**
 * Records that the account with this address had the alpha credit. Returns false if that was recorded before.
 * The row has only a keyed hash of the address, and outlives the account: otherwise a person could delete the
 * account, or change its address, and get the credit again.
 */
export async function recordCreditedAddress(
  tx: Transaction,
  hashes: { address(email: string): Buffer },
  email: string,
): Promise<boolean> {
  const recorded = await tx("credited_addresses")
    .insert({ address_hash: hashes.address(email) })
    .onConflict()
    .ignore()
    .returning("address_hash");
  return recorded.length > 0;
}

import type { Transaction } from "../../db/database.ts";

/**
 * Notes that the account with this address had the alpha credit. Returns false if that was noted before. The
 * note has only a keyed hash of the address, and outlives the account: otherwise a person could delete the
 * account, or change its address, and get the credit again.
 */
export async function noteCredited(
  tx: Transaction,
  hashes: { address(email: string): Buffer },
  email: string,
): Promise<boolean> {
  const noted = await tx("credited_addresses")
    .insert({ address_hash: hashes.address(email) })
    .onConflict()
    .ignore()
    .returning("address_hash");
  return noted.length > 0;
}

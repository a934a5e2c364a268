import type { Database, Transaction } from "../db/database.ts";
import type { AccountRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";

/** An account that completed its onboarding, so that it may own platforms and delegate authority. */
export type Owner = {
  accountId: string;
  email: string;
  accountType: "individual" | "organization";
  /** `org_name` of events: the organization's name, or the person's name if there is no organization. */
  orgName: string;
  humanId: string;
  rootKeyId: string;
  rootPublicKey: { ed25519: string; ml_dsa_65: string };
  /** The root key's ceiling in the vault. `null` means no ceiling. */
  rootCeiling: string[] | null;
};

/** Returns the account as an owner. Throws `not_found` or `onboarding_incomplete`. */
export async function findOwner(db: Database | Transaction, accountId: string): Promise<Owner> {
  const row = await db("accounts").where({ account_id: accountId }).first();
  if (row === undefined) throw new ApiError("not_found");
  return ownerOf(row);
}

function ownerOf(row: AccountRow): Owner {
  const { account_type, human_id, root_key_id, root_public_key } = row;
  if (
    row.onboarding_step !== "complete" ||
    account_type === null ||
    human_id === null ||
    root_key_id === null ||
    root_public_key === null
  ) {
    throw new ApiError("onboarding_incomplete");
  }
  return {
    accountId: row.account_id,
    email: row.email,
    accountType: account_type,
    orgName: row.organization_name ?? `${row.first_name ?? ""} ${row.last_name ?? ""}`.trim(),
    humanId: human_id,
    rootKeyId: root_key_id,
    rootPublicKey: root_public_key,
    rootCeiling: row.root_ceiling,
  };
}

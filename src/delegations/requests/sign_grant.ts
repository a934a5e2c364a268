import { type DelegationCert, delegationSignBytes } from "../../protocol/documents/certificate.ts";
import type { VaultClient } from "../../vault/client.ts";
import { certificateFields, type Grant } from "./certificate_fields.ts";

/** What signing works with. */
export type SignDeps = { vault: Pick<VaultClient, "signDelegation"> };

/**
 * The certificate of a grant, signed in the vault with the owner's root key. The vault checks the grant
 * against `ceiling`, and against the one recorded with the agent's key. Throws `invalid_constraints`,
 * `VaultUnavailable`, `VaultRefused`.
 */
export async function signGrant(
  { vault }: SignDeps,
  grant: Grant,
  { ceiling, requestId, approvedBy }: { ceiling: string[]; requestId: string; approvedBy: string },
): Promise<DelegationCert> {
  const { issuer_pub_key, ...certificate } = certificateFields(grant);
  const key = { tenant: grant.owner.accountId, keyId: grant.owner.rootKeyId };
  const approval = { ceiling, request_id: requestId, approved_by: approvedBy };
  const signed = await vault.signDelegation(key, certificate, approval);
  const asked = delegationSignBytes({ ...certificate, issuer_pub_key });
  if (Buffer.compare(delegationSignBytes(signed), asked) !== 0) {
    throw new Error("The vault signed another certificate than the one it was asked for");
  }
  return signed;
}

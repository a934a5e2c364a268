import type { RevocationList } from "../protocol/statements/revocation_list.ts";
import type { KeyReference } from "./client.ts";
import type { Transport } from "./transport.ts";

/** A certificate to list as revoked, with its end in Unix seconds; null when it has none. */
export type RevokedCertificate = { certId: string; expiresAt: number | null };

/**
 * Statements about a key that the key itself signs. What does not follow the last one is refused with
 * `policy_violation`, and the last one itself is signed again if it is asked for in time. Calls reject as
 * {@link import("./client.ts").VaultClient}'s do.
 */
export type VaultStatements = {
  /**
   * All certificates that an account has revoked, 50,000 at most. `updatedAt`, in Unix seconds, is later than
   * the last list's and within 60 s of the vault's clock. A list that lacks a certificate of the last one is
   * refused unless that certificate has expired.
   */
  revocationList(
    root: KeyReference,
    list: { updatedAt: number; revoked: readonly RevokedCertificate[] },
  ): Promise<RevocationList>;
};

/** Statements signed over this transport. */
export function createStatements(transport: Pick<Transport, "call">): VaultStatements {
  return {
    revocationList: ({ tenant, keyId }, { updatedAt, revoked }) =>
      transport.call({
        method: "POST",
        path: `/v1/keys/${encodeURIComponent(keyId)}/sign/revocation-list`,
        body: {
          tenant,
          updated_at: updatedAt,
          revoked_certs: revoked.map(({ certId }) => certId),
          expires_at: revoked.map(({ expiresAt }) => expiresAt ?? 0),
        },
      }),
  };
}

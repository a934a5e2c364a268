import type { DelegationCert, DelegationFields } from "../protocol/documents/certificate.ts";
import type { ChallengeBinding } from "../protocol/documents/challenge.ts";
import type { HybridPublicKey, HybridSignature } from "../protocol/keys/hybrid.ts";
import type { RevocationList } from "../protocol/statements/revocation_list.ts";
import { createTransport, type Transport, type TransportSettings } from "./transport.ts";

export { VaultRefused, VaultUnavailable } from "./transport.ts";

/** Purposes of keys that the service creates: the root identity of an account, or an agent. */
export type KeyPurpose = "account_root" | "agent";

/** A key and its tenant (account). The vault answers for a different tenant's key as if it did not exist. */
export type KeyReference = { tenant: string; keyId: string };

/**
 * A key to create. `ceiling` permanently limits every delegation that the key issues or receives. A tenant's
 * further root keys must stay within the ceilings of its earlier root keys.
 */
export type NewKey = { tenant: string; label: string } & (
  | { purpose: "account_root"; ceiling?: string[] }
  | { purpose: "agent"; ceiling: string[] }
);

/** The vault's signed statement that it stores a key. Anyone who knows the service key can verify it. */
export type KeyAttestation = {
  key_id: string;
  attested_by: string;
  signature: HybridSignature;
  [field: string]: unknown;
};

/** A key that the vault created. */
export type CreatedKey = { key_id: string; public_key: HybridPublicKey; attestation: KeyAttestation };

/** A change that one admin requested and no second admin has approved yet. `asked_at` is ISO 8601. */
export type PendingChange = { action: "enable" | "destroy"; admin: string; asked_at: string; days?: number };

/**
 * The public parts of a key. A key in state `destroying` no longer signs. At `destroy_at` its seeds are
 * erased, and it becomes `destroyed`. Times are ISO 8601.
 */
export type VaultKey = CreatedKey & {
  tenant: string;
  purpose: KeyPurpose | "service";
  label: string;
  state: "active" | "disabled" | "destroying" | "destroyed";
  /** A key signs only while both the key and its tenant are active. */
  tenant_state: "active" | "destroying" | "destroyed";
  ceiling: string[] | null;
  pending: PendingChange | null;
  destroy_at: string | null;
  created_at: string;
};

/** A user's approval: the widest scope that may be signed, and who approved which request. */
export type VaultApproval = {
  ceiling: string[];
  request_id: string;
  approved_by: string;
  /** Set if the vault does not hold the subject's key. The vault's settings must allow such subjects. */
  external_subject?: boolean;
};

/** A certificate to sign. The vault adds `issuer_pub_key`. `issued_at` must be within 60 s of its clock. */
export type CertificateToSign = Omit<DelegationFields, "issuer_pub_key">;

/** An agent's signed response to a challenge. */
export type SignedChallenge = {
  agent_id: string;
  agent_pub_key: HybridPublicKey;
  challenge_sig: HybridSignature;
};

/** The challenge that an agent's key signs. `challenge_at` must be within 60 s of the vault's clock. */
export type ChallengeToSign = ChallengeBinding;

/**
 * The service's client for the key vault. Each call rejects with `VaultRefused` if the vault refuses it. It
 * rejects with `VaultUnavailable` if there is no response within 5 s or the vault cannot sign now. Calls that
 * sign can be repeated freely. `createKey` returns the same key for the same idempotency key.
 */
export type VaultClient = {
  createKey(key: NewKey, idempotencyKey: string): Promise<CreatedKey>;
  getKey(key: KeyReference): Promise<VaultKey>;
  /** Signs a delegation with an account's root key. Returns the complete certificate. */
  signDelegation(
    key: KeyReference,
    certificate: CertificateToSign,
    approval: VaultApproval,
  ): Promise<DelegationCert>;
  signChallenge(key: KeyReference, challenge: ChallengeToSign): Promise<SignedChallenge>;
  /** Statements that a key signs about itself: revocation lists. */
  statements: VaultStatements;
  /** Stops the key from signing immediately. The API has no permission to undo this. */
  disableKey(key: KeyReference): Promise<void>;
  /** The vault refuses a wider ceiling with `policy_violation`. */
  shrinkCeiling(key: KeyReference, ceiling: string[]): Promise<void>;
  /** Rejects if the vault cannot sign, for example because its token or its audit fails. */
  health(): Promise<void>;
  /** Closes the connections. Running calls reject. */
  close(): Promise<void>;
};

/** Returns a client that authenticates with the API's certificate. The client connects at the first call. */
export function createVaultClient(settings: TransportSettings): VaultClient {
  const transport = createTransport(settings);
  const post = <T>({ keyId }: KeyReference, action: string, body: object): Promise<T> =>
    transport.call({ method: "POST", path: `/v1/keys/${encodeURIComponent(keyId)}/${action}`, body });
  return {
    createKey: (key, idempotencyKey) =>
      transport.call({ method: "POST", path: "/v1/keys", body: key, idempotencyKey }),
    getKey: ({ tenant, keyId }) =>
      transport.call({
        method: "GET",
        path: `/v1/keys/${encodeURIComponent(keyId)}?tenant=${encodeURIComponent(tenant)}`,
      }),
    signDelegation: (key, certificate, approval) =>
      post(key, "sign/delegation", { tenant: key.tenant, certificate, approval }),
    signChallenge: (key, { stream_id, stream_seq, ...binding }) => {
      const stream =
        stream_id === undefined && stream_seq === undefined ? undefined : { stream_id, stream_seq };
      return post(key, "sign/challenge", { tenant: key.tenant, ...binding, stream });
    },
    statements: createStatements(transport),
    async disableKey(key) {
      await post(key, "disable", { tenant: key.tenant });
    },
    async shrinkCeiling(key, ceiling) {
      await post(key, "ceiling", { tenant: key.tenant, ceiling });
    },
    async health() {
      await transport.call({ method: "GET", path: "/readyz" });
    },
    close: () => transport.close(),
  };
}

/** A certificate to list as revoked. `expiresAt` is in Unix seconds. `null` means that it does not expire. */
export type RevokedCertificate = { certId: string; expiresAt: number | null };

/**
 * Statements that a key signs about itself. The vault refuses a statement that does not follow the previous
 * one with `policy_violation`. Calls reject like those of {@link VaultClient}.
 */
export type VaultStatements = {
  /**
   * Signs a list of all certificates that an account has revoked, at most 50,000. `updatedAt` is in Unix
   * seconds, later than that of the previous list, and within 60 s of the vault's clock. The vault refuses a
   * list that lacks a certificate of the previous list, unless the certificate has expired.
   */
  revocationList(
    root: KeyReference,
    list: { updatedAt: number; revoked: readonly RevokedCertificate[] },
  ): Promise<RevocationList>;
};

function createStatements(transport: Pick<Transport, "call">): VaultStatements {
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

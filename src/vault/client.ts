import type { DelegationCert, DelegationFields } from "../protocol/documents/certificate.ts";
import type { ChallengeBinding } from "../protocol/documents/challenge.ts";
import type { HybridPublicKey, HybridSignature } from "../protocol/keys/hybrid.ts";
import type { RevocationList } from "../protocol/statements/revocation_list.ts";
import { createTransport, type Transport, type TransportSettings } from "./transport.ts";

export { VaultRefused, VaultUnavailable } from "./transport.ts";

/** What the vault makes keys for here: the root identity of an account, or an agent. */
export type KeyPurpose = "account_root" | "agent";

/**
 * A key of the vault and the tenant (account) it must belong to: another tenant's is answered like one that
 * does not exist.
 */
export type KeyReference = { tenant: string; keyId: string };

/**
 * A key to make. `ceiling` permanently bounds every delegation the key issues or receives; an agent's key has
 * one, and a tenant's further root keys stay within what an earlier one was bounded to.
 */
export type NewKey = { tenant: string; label: string } & (
  | { purpose: "account_root"; ceiling?: string[] }
  | { purpose: "agent"; ceiling: string[] }
);

/** The vault's signed word that it keeps a key; carried along, checked by those who know the service key. */
export type KeyAttestation = {
  key_id: string;
  attested_by: string;
  signature: HybridSignature;
  [field: string]: unknown;
};

/** A key that was made. */
export type CreatedKey = { key_id: string; public_key: HybridPublicKey; attestation: KeyAttestation };

/** What one admin asked for and a second one has not granted yet; `asked_at` is ISO 8601. */
export type PendingChange = { action: "enable" | "destroy"; admin: string; asked_at: string; days?: number };

/**
 * The public parts of a key. One that is `destroying` signs no more, and is `destroyed` when its seeds are
 * erased, at `destroy_at`. Times are ISO 8601.
 */
export type VaultKey = CreatedKey & {
  tenant: string;
  purpose: KeyPurpose | "service";
  label: string;
  state: "active" | "disabled" | "destroying" | "destroyed";
  /** The tenant's own: a key signs only while both are active. */
  tenant_state: "active" | "destroying" | "destroyed";
  ceiling: string[] | null;
  pending: PendingChange | null;
  destroy_at: string | null;
  created_at: string;
};

/** What a human approved: the widest scope that may be signed, and who approved which request. */
export type VaultApproval = {
  ceiling: string[];
  request_id: string;
  approved_by: string;
  /** The subject's key is not in the vault; refused unless the vault is set to allow it. */
  external_subject?: boolean;
};

/**
 * A certificate to sign: everything but the issuer's public key, which the vault fills in. `issued_at` is
 * within 60 s of its clock.
 */
export type CertificateToSign = Omit<DelegationFields, "issuer_pub_key">;

/** An agent's answer to a challenge. */
export type SignedChallenge = {
  agent_id: string;
  agent_pub_key: HybridPublicKey;
  challenge_sig: HybridSignature;
};

/** What an agent's key answers: `challenge_at` is within 60 s of the vault's clock. */
export type ChallengeToSign = ChallengeBinding;

/**
 * The key vault as the service sees it. Every call rejects with `VaultRefused` (the vault decided against it;
 * `code` says why) or with `VaultUnavailable` (no answer within 5 s, or the vault cannot sign now). Signing
 * may be repeated freely; `createKey` may be repeated under the same idempotency key and then gives the same
 * key.
 */
export type VaultClient = {
  createKey(key: NewKey, idempotencyKey: string): Promise<CreatedKey>;
  getKey(key: KeyReference): Promise<VaultKey>;
  /** Signs with an account's root key and returns the whole certificate. */
  signDelegation(
    key: KeyReference,
    certificate: CertificateToSign,
    approval: VaultApproval,
  ): Promise<DelegationCert>;
  /** Signs with an agent's key. */
  signChallenge(key: KeyReference, challenge: ChallengeToSign): Promise<SignedChallenge>;
  /** Revocation lists and pushes, rotations, receipts and checkpoints. */
  statements: VaultStatements;
  /** Stops the key from signing immediately; this role cannot undo it. */
  disableKey(key: KeyReference): Promise<void>;
  /** Narrows the ceiling recorded with the key; a wider one is refused with `policy_violation`. */
  shrinkCeiling(key: KeyReference, ceiling: string[]): Promise<void>;
  /** Resolves when the vault can sign, token and audit included. */
  health(): Promise<void>;
  /** Lets go of the connections; calls in flight are rejected. */
  close(): Promise<void>;
};

/** A client with the API's certificate. It connects when it is first used. */
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

import type { HybridPublicKey, HybridSignature } from "../../src/protocol/keys/hybrid.ts";

/** Purpose of a key. It determines what the key may sign and is fixed when the key is created. */
export type Purpose = "account_root" | "agent" | "service";

/**
 * The vault's statement that it created and stores a key for a tenant and purpose, signed by the service key.
 */
export type Attestation = {
  type: "key_attestation";
  version: 1;
  key_id: string;
  public_key: HybridPublicKey;
  tenant: string;
  purpose: Purpose;
  /** Unix seconds. */
  created_at: number;
  /** Key id of the service key. */
  attested_by: string;
  signature: HybridSignature;
};

/**
 * A change that one admin requested and a second admin has not approved yet. `days` is the number of days
 * before a destruction takes effect. `rows` is SHA-256, in hexadecimal, of the rows to adopt.
 */
export type Wish = {
  action: "enable" | "destroy" | "adopt";
  admin: string;
  asked_at: string;
  days?: number;
  rows?: string;
};

/**
 * A stored wish, with the requesting admin's certificate, base64 of its DER. Earlier versions stored no
 * certificate.
 */
export type Pending = Wish & { certificate?: string };

/** Returns the public part of a stored wish. */
export function wishOf(pending: Pending | null): Wish | null {
  if (pending === null) return null;
  const { certificate: _, ...wish } = pending;
  return wish;
}

/** One row of `tenants`, with the tenant's data key, wrapped by the token. A destroyed data key is empty. */
export type TenantRow = {
  tenant: string;
  kek: string;
  wrapped_data_key: Buffer;
  created_at: Date;
  state: "active" | "destroying" | "destroyed";
  pending: Pending | null;
  destroy_at: Date | null;
  /**
   * Number of the audit record that set this state. Like `state_mac`, it is null only in a row that an
   * earlier version stored without a code, until the row is adopted.
   */
  state_seq: number | null;
  state_mac: Buffer | null;
};

/** One row of `keys`. */
export type KeyRow = {
  key_id: string;
  tenant: string;
  purpose: Purpose;
  label: string;
  public_key: HybridPublicKey;
  wrapped_seeds: Buffer;
  seeds_version: number;
  attestation: Attestation;
  ceiling: string[] | null;
  state: "active" | "disabled" | "destroying" | "destroyed";
  created_at: Date;
  disabled_at: Date | null;
  pending: Pending | null;
  destroy_at: Date | null;
  state_seq: number | null;
  state_mac: Buffer | null;
  request_key: string;
  request_hash: Buffer;
};

/** One row of `audit`. */
export type AuditRow = {
  seq: number;
  recorded_at: Date;
  caller: string;
  role: string;
  key_id: string | null;
  purpose: string | null;
  statement: string;
  digest: Buffer | null;
  outcome: string;
  detail: Record<string, string>;
  mac: Buffer;
};

import type { HybridPublicKey, HybridSignature } from "../../src/protocol/keys/hybrid.ts";

/** What a key may sign; fixed when it is made. */
export type Purpose = "account_root" | "agent" | "service";

/**
 * The vault's word that it made a key and keeps it: binds key, tenant and purpose. Signed by the vault's
 * service key.
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
 * What one admin asked for and a second one has not granted yet. `days`: how long a destruction waits;
 * `rows`: SHA-256 of the rows that an adoption is for, in hexadecimal.
 */
export type Wish = {
  action: "enable" | "destroy" | "adopt";
  admin: string;
  asked_at: string;
  days?: number;
  rows?: string;
};

/**
 * A wish as it is stored: with the certificate it was asked for by, base64 of its DER; a wish of an older
 * version has none.
 */
export type Pending = Wish & { certificate?: string };

/** What is shown of a stored wish. */
export function wishOf(pending: Pending | null): Wish | null {
  if (pending === null) return null;
  const { certificate: _, ...wish } = pending;
  return wish;
}

/** One row of `tenants`: the tenant's data key, wrapped by the token and empty once it was destroyed. */
export type TenantRow = {
  tenant: string;
  kek: string;
  wrapped_data_key: Buffer;
  created_at: Date;
  state: "active" | "destroying" | "destroyed";
  pending: Pending | null;
  destroy_at: Date | null;
  /**
   * Number of the audit record that gave the row this state; with `state_mac` null only in a row of a version
   * that knew no codes, until it is adopted.
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

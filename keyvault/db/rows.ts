import type { HybridPublicKey } from "../../src/protocol/hybrid.ts";
import type { Attestation } from "../keys/attestation.ts";

/** What a key may sign; fixed when it is made. */
export type Purpose = "account_root" | "agent" | "service";

/** One row of `tenants`: the tenant's data key, wrapped by the token. */
export type TenantRow = { tenant: string; kek: string; wrapped_data_key: Buffer; created_at: Date };

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
  state: "active" | "disabled";
  created_at: Date;
  disabled_at: Date | null;
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

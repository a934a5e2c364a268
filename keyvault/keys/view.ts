import type { HybridPublicKey } from "../../src/protocol/keys/hybrid.ts";
import type { Attestation } from "../db/rows.ts";
import { type KeyRow, type Purpose, type TenantRow, type Wish, wishOf } from "../db/rows.ts";
import type { JoinedKeyRow } from "./store.ts";

/** The public parts of a key, as callers see them. Times are ISO 8601. */
export type KeyView = {
  key_id: string;
  tenant: string;
  purpose: Purpose;
  label: string;
  state: KeyRow["state"];
  /** The tenant's own: a key signs only while both are active. */
  tenant_state: TenantRow["state"];
  ceiling: readonly string[] | null;
  public_key: HybridPublicKey;
  /** What one admin asked for and another has not granted yet; null when nothing waits. */
  pending: Wish | null;
  /** When the seeds are erased, or were; null unless the key is being destroyed. */
  destroy_at: string | null;
  attestation: Attestation;
  created_at: string;
};

/** What may be shown of a key. */
export function viewKey({ key, tenant }: JoinedKeyRow): KeyView {
  return {
    key_id: key.key_id,
    tenant: key.tenant,
    purpose: key.purpose,
    label: key.label,
    state: key.state,
    tenant_state: tenant.state,
    ceiling: key.ceiling,
    public_key: key.public_key,
    pending: wishOf(key.pending),
    destroy_at: key.destroy_at?.toISOString() ?? null,
    attestation: key.attestation,
    created_at: key.created_at.toISOString(),
  };
}

import { type KeyRow, type TenantRow, type Wish, wishOf } from "../db/rows.ts";

/**
 * What became of a key: its state, what waits for a second admin, and when its seeds are erased (ISO 8601).
 */
export type KeyAnswer = {
  key_id: string;
  state: KeyRow["state"];
  pending: Wish | null;
  destroy_at: string | null;
};

/** As {@link KeyAnswer}, of a tenant. */
export type TenantAnswer = {
  tenant: string;
  state: TenantRow["state"];
  pending: Wish | null;
  destroy_at: string | null;
};

/** What the answer says of a changed key. */
export function keyAnswer({ key_id, state, pending, destroy_at }: KeyRow): KeyAnswer {
  return { key_id, state, pending: wishOf(pending), destroy_at: destroy_at?.toISOString() ?? null };
}

/** What the answer says of a changed tenant. */
export function tenantAnswer({ tenant, state, pending, destroy_at }: TenantRow): TenantAnswer {
  return { tenant, state, pending: wishOf(pending), destroy_at: destroy_at?.toISOString() ?? null };
}

/** The moment `days` after `now`. */
export function daysAfter(now: Date, days: number): Date {
  return new Date(now.getTime() + days * 86_400_000);
}

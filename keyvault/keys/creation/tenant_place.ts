import type pg from "pg";
import type { RowCodes } from "../../audit/row_codes.ts";
import type { TenantRow } from "../../db/rows.ts";
import { type Refusal, refuse } from "../../errors.ts";
import { insertTenant } from "./insert.ts";

/** A tenant before anything happened to it. */
export const NEW_TENANT = { state: "active", pending: null, destroy_at: null } as const;

/** The refusal of a new key whose tenant is to end. */
export function refuseEnding(): Refusal {
  return refuse("policy_violation", "The tenant's keys are destroyed, or will be");
}

/**
 * Sees that a new key's tenant is there with the data key that the key was wrapped under: `raced` when it has
 * another one by now, or that one's key-encryption key (none of `keks`) was retired meanwhile; `damaged` when
 * its row was altered, undefined when all is well.
 */
export async function placeTenant(
  client: pg.Client,
  rowCodes: RowCodes,
  tenant: TenantRow,
  keks: readonly string[],
): Promise<"raced" | "damaged" | Refusal | undefined> {
  if (!keks.includes(tenant.kek)) return "raced";
  const stored = await insertTenant(client, tenant);
  const [intact] = await rowCodes.check({ keys: [], tenants: [stored] }, tenant.state_seq ?? undefined);
  if (intact !== true) return "damaged";
  if (stored.state !== "active") return refuseEnding();
  return stored.wrapped_data_key.equals(tenant.wrapped_data_key) ? undefined : "raced";
}

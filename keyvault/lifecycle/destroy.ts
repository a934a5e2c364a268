import type { Caller } from "../audit/record.ts";
import { daysAfter } from "../clock.ts";
import { type KeyRow, type TenantRow, type Wish, wishOf } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import {
  changeKey,
  changeTenant,
  type KeyChangeParts,
  type TenantChangeParts,
  VAULT_TENANT,
} from "../keys/change.ts";
import { changeByTwo, type JudgingParts } from "./approval.ts";

/**
 * A key's state, the wish that waits for a second admin, and the time at which its seeds are erased (ISO
 * 8601).
 */
export type KeyAnswer = Pick<KeyRow, "key_id" | "state"> & Waiting;

/** The destruction state of a tenant, like {@link KeyAnswer}. */
export type TenantAnswer = Pick<TenantRow, "tenant" | "state"> & Waiting;

type Waiting = { pending: Wish | null; destroy_at: string | null };

/**
 * Destroys a key: it stops signing at the second admin's request, and its seeds are erased `days` (7 to 30)
 * later.
 */
export type DestroyKey = (caller: Caller, keyId: string, days: number) => Promise<KeyAnswer | Refusal>;

/** Creates the operation that destroys keys. */
export function createKeyDestruction(parts: KeyChangeParts & JudgingParts): DestroyKey {
  return async (caller, keyId, days) => {
    requireAgreement(parts);
    const about = { caller, statement: "key_destroy", detail: { days: String(days) } } as const;
    const row = await changeKey(parts, { keyId, tenant: undefined }, about, (row) => {
      if (row.tenant === VAULT_TENANT) {
        return refuse("policy_violation", "The vault's own key cannot be destroyed");
      }
      if (row.destroy_at !== null) return refuse("policy_violation", `The key is ${row.state} already`);
      return changeByTwo(row, { action: "destroy", days }, caller, parts, (now) => ({
        state: "destroying",
        disabled_at: row.disabled_at ?? now,
        destroy_at: daysAfter(now, days),
      }));
    });
    return keyAnswer(row);
  };
}

/** Throws `VaultError unavailable` while the clocks disagree, because the waiting period begins now. */
function requireAgreement({ clock }: JudgingParts): void {
  if (clock.agreed() !== undefined) return;
  const why = "The clocks of the vault's machine and of its database disagree; nothing was changed";
  throw new VaultError("unavailable", why);
}

/**
 * Cancels a requested or approved destruction before its date. The key remains disabled. One admin suffices.
 */
export type CancelKeyDestruction = (caller: Caller, keyId: string) => Promise<KeyAnswer | Refusal>;

/** Creates the operation that cancels the destruction of a key. */
export function createKeyDestructionCancelling(parts: KeyChangeParts): CancelKeyDestruction {
  return async (caller, keyId) => {
    const about = { caller, statement: "key_destroy_cancel" } as const;
    const row = await changeKey(parts, { keyId, tenant: undefined }, about, (row) => {
      if (row.state === "destroying") return { row: { ...row, state: "disabled", destroy_at: null } };
      if (row.pending?.action === "destroy") return { row: { ...row, pending: null } };
      return refuse("policy_violation", "There is no destruction of this key to cancel");
    });
    return keyAnswer(row);
  };
}

/** Lets a disabled key sign again at the second admin's request. Refuses a key that is being destroyed. */
export type EnableKey = (caller: Caller, keyId: string) => Promise<KeyAnswer | Refusal>;

/** Creates the operation that enables keys. */
export function createKeyEnabling(parts: KeyChangeParts & JudgingParts): EnableKey {
  return async (caller, keyId) => {
    const about = { caller, statement: "key_enable" } as const;
    const row = await changeKey(parts, { keyId, tenant: undefined }, about, (row) =>
      row.state === "disabled"
        ? changeByTwo(row, { action: "enable" }, caller, parts, () => ({
            state: "active",
            disabled_at: null,
          }))
        : refuse("policy_violation", `The key is ${row.state}; only a disabled key can be enabled`),
    );
    return keyAnswer(row);
  };
}

/**
 * Destroys a tenant. The tenant's keys stop signing when the second admin requests the destruction. Its data
 * key, which wraps all of them, is erased `days` (7 to 30) later.
 */
export type DestroyTenant = (caller: Caller, tenant: string, days: number) => Promise<TenantAnswer | Refusal>;

/** Creates the operation that destroys tenants. */
export function createTenantDestruction(parts: TenantChangeParts & JudgingParts): DestroyTenant {
  return async (caller, tenant, days) => {
    requireAgreement(parts);
    const about = { caller, statement: "tenant_destroy", detail: { days: String(days) } } as const;
    const row = await changeTenant(parts, tenant, about, (row) => {
      if (tenant === VAULT_TENANT) {
        return refuse("policy_violation", "The vault's own keys cannot be destroyed");
      }
      if (row.state !== "active") return refuse("policy_violation", `The tenant is ${row.state} already`);
      return changeByTwo(row, { action: "destroy", days }, caller, parts, (now) => ({
        state: "destroying",
        destroy_at: daysAfter(now, days),
      }));
    });
    return tenantAnswer(row);
  };
}

/** Cancels the destruction of a tenant before its date. Its keys then work as before. One admin suffices. */
export type CancelTenantDestruction = (caller: Caller, tenant: string) => Promise<TenantAnswer | Refusal>;

/** Creates the operation that cancels the destruction of a tenant. */
export function createTenantDestructionCancelling(parts: TenantChangeParts): CancelTenantDestruction {
  return async (caller, tenant) => {
    const row = await changeTenant(parts, tenant, { caller, statement: "tenant_destroy_cancel" }, (row) =>
      row.state === "destroying" || (row.state === "active" && row.pending !== null)
        ? { row: { ...row, state: "active", pending: null, destroy_at: null } }
        : refuse("policy_violation", "There is no destruction of this tenant to cancel"),
    );
    return tenantAnswer(row);
  };
}

function keyAnswer(row: KeyRow | Refusal): KeyAnswer | Refusal {
  return isRefusal(row) ? row : { key_id: row.key_id, state: row.state, ...waiting(row) };
}

function tenantAnswer(row: TenantRow | Refusal): TenantAnswer | Refusal {
  return isRefusal(row) ? row : { tenant: row.tenant, state: row.state, ...waiting(row) };
}

function waiting({ pending, destroy_at }: KeyRow | TenantRow): Waiting {
  return { pending: wishOf(pending), destroy_at: destroy_at?.toISOString() ?? null };
}

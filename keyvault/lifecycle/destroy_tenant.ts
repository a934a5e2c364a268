import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { AuditEntry, Caller } from "../audit/record.ts";
import { type RowCodes, tenantStateDigest } from "../audit/row_codes.ts";
import type { TenantRow } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import { type Changed, VAULT_TENANT } from "../keys/change.ts";
import type { DataKeys } from "../keys/data_keys.ts";
import type { KeyStore } from "../keys/store.ts";
import {
  daysAfter,
  decideByTwo,
  type JudgingParts,
  judging,
  type TenantAnswer,
  tenantAnswer,
} from "./approval.ts";

/**
 * Ends a tenant: none of its keys signs from the moment the second admin asks, and its data key, under which
 * all of them are wrapped, is erased `days` (7 to 30) later.
 */
export type DestroyTenant = (caller: Caller, tenant: string, days: number) => Promise<TenantAnswer | Refusal>;

/** Takes a destruction back before its time; the tenant's keys are as they were. One admin suffices. */
export type CancelTenantDestruction = (caller: Caller, tenant: string) => Promise<TenantAnswer | Refusal>;

type Parts = TenantChangeParts & JudgingParts;

/** Destroying on these parts. */
export function createTenantDestruction(parts: Parts): DestroyTenant {
  return async (caller, tenant, days) => {
    const about = { caller, statement: "tenant_destroy", detail: { days: String(days) } } as const;
    const row = await changeTenant(parts, tenant, about, (row) => {
      if (tenant === VAULT_TENANT) {
        return refuse("policy_violation", "The vault's own keys cannot be destroyed");
      }
      if (row.state !== "active") return refuse("policy_violation", `The tenant is ${row.state} already`);
      const by = judging(parts);
      const decision = decideByTwo(row.pending, { action: "destroy", days }, caller, by);
      if (decision !== "granted") {
        return isRefusal(decision)
          ? decision
          : { row: { ...row, pending: decision }, detail: { step: "asked" } };
      }
      const ending = { state: "destroying", pending: null, destroy_at: daysAfter(by.now, days) } as const;
      return { row: { ...row, ...ending }, detail: { step: "done", asked_by: row.pending?.admin ?? "" } };
    });
    return isRefusal(row) ? row : tenantAnswer(row);
  };
}

/** Cancelling on these parts. */
export function createTenantDestructionCancelling(parts: TenantChangeParts): CancelTenantDestruction {
  return async (caller, tenant) => {
    const row = await changeTenant(parts, tenant, { caller, statement: "tenant_destroy_cancel" }, (row) =>
      row.state === "destroying" || (row.state === "active" && row.pending !== null)
        ? { row: { ...row, state: "active", pending: null, destroy_at: null } }
        : refuse("policy_violation", "No destruction of this tenant is under way"),
    );
    return isRefusal(row) ? row : tenantAnswer(row);
  };
}

/** What changing a tenant needs. */
export type TenantChangeParts = { journal: Journal; store: KeyStore; rowCodes: RowCodes; dataKeys: DataKeys };

/**
 * Changes one tenant and records it in the same transaction; whatever was remembered of its keys is forgotten
 * at that moment. `apply` sees the locked row, proven to be as the vault wrote it. A tenant without keys is
 * answered with `key_not_found`. Rejects with `VaultError key_damaged`, recorded as `failed`, when the row
 * was altered.
 */
export async function changeTenant(
  { journal, store, rowCodes, dataKeys }: TenantChangeParts,
  tenant: string,
  about: Omit<AuditEntry, "outcome" | "keyId" | "purpose">,
  apply: (row: TenantRow) => Changed<TenantRow> | Refusal,
): Promise<TenantRow | Refusal> {
  const result = await journal.change(
    async (client, seq): Promise<Change<TenantRow | Refusal | "damaged">> => {
      const row = await lockTenant(client, tenant);
      const entry = { ...about, detail: { ...about.detail, tenant } };
      if (row === undefined) {
        return { value: refuse("key_not_found"), entry: { ...entry, outcome: "key_not_found" } };
      }
      const [intact] = await rowCodes.check({ keys: [], tenants: [row] });
      if (intact !== true) return { value: "damaged", entry: { ...entry, outcome: "failed" } };
      const changed = apply(row);
      if (isRefusal(changed)) return { value: changed, entry: { ...entry, outcome: changed.refused } };
      const next = { ...changed.row, state_seq: seq };
      const coded = await rowCodes.add({ keys: [], tenants: [next] });
      for (const row of coded.tenants) await writeTenant(client, row);
      const detail = { ...entry.detail, ...changed.detail };
      return {
        value: changed.row,
        entry: { ...entry, detail, digest: tenantStateDigest(next), outcome: "granted" },
        committed() {
          dataKeys.clear();
          store.changed();
        },
      };
    },
  );
  if (result === "damaged") throw new VaultError("key_damaged");
  return result;
}

async function lockTenant(client: pg.Client, tenant: string): Promise<TenantRow | undefined> {
  const { rows } = await client.query<TenantRow>("select * from tenants where tenant = $1 for update", [
    tenant,
  ]);
  return rows[0];
}

async function writeTenant(client: pg.Client, row: TenantRow): Promise<void> {
  await client.query(
    `update tenants set state = $2, pending = $3, destroy_at = $4, wrapped_data_key = $5, state_seq = $6, state_mac = $7
     where tenant = $1`,
    [row.tenant, row.state, row.pending, row.destroy_at, row.wrapped_data_key, row.state_seq, row.state_mac],
  );
}

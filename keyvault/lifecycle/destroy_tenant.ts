import type { Caller } from "../audit/record.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { VAULT_TENANT } from "../keys/disable.ts";
import { daysAfter, type TenantAnswer, tenantAnswer } from "./answers.ts";
import { decideByTwo, type JudgingParts, judging } from "./approval.ts";
import { changeTenant, type TenantChangeParts } from "./change_tenant.ts";

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

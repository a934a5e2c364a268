import type { Caller } from "../audit/record.ts";
import type { KeyRow } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { type Changed, changeKey, type KeyChangeParts, VAULT_TENANT } from "../keys/change.ts";
import {
  daysAfter,
  decideByTwo,
  type Judging,
  type JudgingParts,
  judging,
  type KeyAnswer,
  keyAnswer,
} from "./approval.ts";

/**
 * Ends a key: it signs no more from the moment the second admin asks, and its seeds are erased `days` (7 to
 * 30) later.
 */
export type DestroyKey = (caller: Caller, keyId: string, days: number) => Promise<KeyAnswer | Refusal>;

/**
 * Takes a destruction back before its time, asked for or granted. The key is left disabled. One admin
 * suffices.
 */
export type CancelKeyDestruction = (caller: Caller, keyId: string) => Promise<KeyAnswer | Refusal>;

type Parts = KeyChangeParts & JudgingParts;

/** Destroying on these parts. */
export function createKeyDestruction(parts: Parts): DestroyKey {
  return async (caller, keyId, days) => {
    const about = { caller, statement: "key_destroy", detail: { days: String(days) } } as const;
    const row = await changeKey(parts, { keyId, tenant: undefined }, about, (row) =>
      decide(row, caller, days, judging(parts)),
    );
    return isRefusal(row) ? row : keyAnswer(row);
  };
}

/** Cancelling on these parts. */
export function createKeyDestructionCancelling(parts: KeyChangeParts): CancelKeyDestruction {
  return async (caller, keyId) => {
    const about = { caller, statement: "key_destroy_cancel" } as const;
    const row = await changeKey(parts, { keyId, tenant: undefined }, about, (row) => {
      if (row.state === "destroying") return { row: { ...row, state: "disabled", destroy_at: null } };
      if (row.pending?.action === "destroy") return { row: { ...row, pending: null } };
      return refuse("policy_violation", "No destruction of this key is under way");
    });
    return isRefusal(row) ? row : keyAnswer(row);
  };
}

function decide(row: KeyRow, caller: Caller, days: number, judging: Judging): Changed<KeyRow> | Refusal {
  if (row.tenant === VAULT_TENANT) {
    return refuse("policy_violation", "The vault's own key cannot be destroyed");
  }
  if (row.destroy_at !== null) return refuse("policy_violation", `The key is ${row.state} already`);
  const decision = decideByTwo(row.pending, { action: "destroy", days }, caller, judging);
  if (decision !== "granted") {
    return isRefusal(decision) ? decision : { row: { ...row, pending: decision }, detail: { step: "asked" } };
  }
  const { now } = judging;
  const disabled_at = row.disabled_at ?? now;
  const ending = {
    state: "destroying",
    disabled_at,
    pending: null,
    destroy_at: daysAfter(now, days),
  } as const;
  return { row: { ...row, ...ending }, detail: { step: "done", asked_by: row.pending?.admin ?? "" } };
}

/**
 * Lets a disabled key sign again, when a second admin asks for it too. A key that is being destroyed is
 * cancelled first.
 */
export type EnableKey = (caller: Caller, keyId: string) => Promise<KeyAnswer | Refusal>;

/** Enabling on these parts. */
export function createKeyEnabling(parts: KeyChangeParts & JudgingParts): EnableKey {
  return async (caller, keyId) => {
    const about = { caller, statement: "key_enable" } as const;
    const row = await changeKey(parts, { keyId, tenant: undefined }, about, (row) => {
      if (row.state !== "disabled") {
        return refuse("policy_violation", `The key is ${row.state}; only a disabled one can be enabled`);
      }
      const decision = decideByTwo(row.pending, { action: "enable" }, caller, judging(parts));
      if (decision === "granted") {
        return {
          row: { ...row, state: "active", disabled_at: null, pending: null },
          detail: { step: "done", asked_by: row.pending?.admin ?? "" },
        };
      }
      return isRefusal(decision)
        ? decision
        : { row: { ...row, pending: decision }, detail: { step: "asked" } };
    });
    return isRefusal(row) ? row : keyAnswer(row);
  };
}

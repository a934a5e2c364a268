import type { Caller } from "../audit/record.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { changeKey, type KeyChangeParts } from "../keys/change.ts";
import { type KeyAnswer, keyAnswer } from "./answers.ts";
import { decideByTwo, type JudgingParts, judging } from "./approval.ts";

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

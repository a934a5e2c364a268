import { beyondCeiling, coversScopes } from "../../src/protocol/documents/scopes.ts";
import type { Caller } from "../audit/record.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { changeKey, type KeyChangeParts, type KeyTarget } from "./change.ts";

/**
 * Narrows the ceiling recorded with a key. A ceiling that grants anything the recorded one does not is
 * refused with `policy_violation`; a key without a ceiling takes its first. Certificates signed before keep
 * what they say.
 */
export type ShrinkCeiling = (
  caller: Caller,
  target: KeyTarget,
  ceiling: string[],
) => Promise<{ key_id: string; ceiling: readonly string[] } | Refusal>;

/** Narrowing on these parts. */
export function createCeilingShrinking(parts: KeyChangeParts): ShrinkCeiling {
  return async (caller, target, ceiling) => {
    const shrunk = await changeKey(parts, target, { caller, statement: "ceiling_shrink" }, (row) => {
      const beyond = row.purpose === "account_root" ? beyondCeiling : coversScopes;
      const wider = row.ceiling === null ? [] : beyond(row.ceiling, ceiling);
      if (wider.length === 0) return { row: { ...row, ceiling } };
      return refuse(
        "policy_violation",
        `The recorded ceiling does not grant ${wider.slice(0, 3).join(", ")}`,
      );
    });
    return isRefusal(shrunk) ? shrunk : { key_id: shrunk.key_id, ceiling: shrunk.ceiling ?? ceiling };
  };
}

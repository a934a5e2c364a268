import type { Caller } from "../audit/record.ts";
import type { Clock } from "../clock.ts";
import type { KeyRow } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { changeKey, type KeyChangeParts, type KeyTarget } from "./change.ts";

/** Stops a key from signing, at once and for good as far as this call goes. Disabling a disabled key changes nothing and succeeds. */
export type DisableKey = (
  caller: Caller,
  target: KeyTarget,
) => Promise<{ key_id: string; state: "disabled" } | Refusal>;

/** Tenant of the vault's own keys. They attest all others, so nobody disables them. */
export const VAULT_TENANT = "vault";

/** Disabling on these parts. */
export function createKeyDisabling(parts: KeyChangeParts & { clock: Clock }): DisableKey {
  return async (caller, target) => {
    const disabled = await changeKey(
      parts,
      target,
      { caller, statement: "key_disable" },
      async (client, row) => {
        if (row.tenant === VAULT_TENANT)
          return refuse("policy_violation", "The vault's own key cannot be disabled");
        if (row.state === "disabled") return row;
        const disabledAt = parts.clock.now();
        await client.query("UPDATE keys SET state = 'disabled', disabled_at = $2 WHERE key_id = $1", [
          row.key_id,
          disabledAt,
        ]);
        return { ...row, state: "disabled", disabled_at: disabledAt } satisfies KeyRow;
      },
    );
    return isRefusal(disabled) ? disabled : { key_id: disabled.key_id, state: "disabled" };
  };
}

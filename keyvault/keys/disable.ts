import type { Caller } from "../audit/record.ts";
import type { Clock } from "../clock.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { changeKey, type KeyChangeParts, type KeyTarget } from "./change.ts";

/**
 * Stops a key from signing, immediately and until a call enables it again; a request to enable it that waits
 * for a second admin is dropped. Disabling a key that does not sign anyway succeeds.
 */
export type DisableKey = (
  caller: Caller,
  target: KeyTarget,
) => Promise<{ key_id: string; state: "disabled" } | Refusal>;

/** Tenant of the vault's own keys. They attest all others, so nobody disables them. */
export const VAULT_TENANT = "vault";

/** Disabling on these parts. */
export function createKeyDisabling(parts: KeyChangeParts & { clock: Clock }): DisableKey {
  return async (caller, target) => {
    const disabled = await changeKey(parts, target, { caller, statement: "key_disable" }, (row) => {
      if (row.tenant === VAULT_TENANT) {
        return refuse("policy_violation", "The vault's own key cannot be disabled");
      }
      const pending = row.pending?.action === "enable" ? null : row.pending;
      if (row.state !== "active") return { row: { ...row, pending } };
      return { row: { ...row, pending, state: "disabled", disabled_at: parts.clock.now() } };
    });
    return isRefusal(disabled) ? disabled : { key_id: disabled.key_id, state: "disabled" };
  };
}

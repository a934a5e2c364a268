import type pg from "pg";
import { coversScopes } from "../../src/protocol/scopes.ts";
import { type Refusal, refuse } from "../errors.ts";
import type { KeyRequest } from "./create.ts";

/**
 * A tenant's ceiling is what its root keys, disabled ones included, were bounded to: a further root stays within that of one of them.
 * Without this rule a caller could widen what a tenant may delegate by making it another root. Call in the storing transaction.
 */
export async function exceedsTenantCeiling(
  client: pg.Client,
  { tenant, purpose, ceiling }: KeyRequest,
): Promise<Refusal | undefined> {
  if (purpose !== "account_root") return undefined;
  const { rows } = await client.query<{ ceiling: string[] | null }>(
    "SELECT ceiling FROM keys WHERE tenant = $1 AND purpose = 'account_root'",
    [tenant],
  );
  const within = ({ ceiling: recorded }: { ceiling: string[] | null }): boolean =>
    recorded === null || (ceiling !== undefined && coversScopes(recorded, ceiling).length === 0);
  return rows.length === 0 || rows.some(within)
    ? undefined
    : refuse("policy_violation", "The tenant's root keys have a ceiling; another root needs one within it");
}

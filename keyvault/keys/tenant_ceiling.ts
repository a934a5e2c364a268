import type pg from "pg";
import { beyondCeiling } from "../../src/protocol/scopes.ts";
import type { KeyRow } from "../db/rows.ts";
import { type Refusal, refuse } from "../errors.ts";
import type { KeyRequest } from "./create.ts";
import { KEY_SUPERSEDED, type Seals, type Superseded } from "./state.ts";

/**
 * A tenant's ceiling is what its root keys, disabled ones included, were bounded to: a further root stays within that of one of them.
 * Without this rule a caller could widen what a tenant may delegate by making it another root. Where a root key is not as the vault wrote
 * it, or one that the audit tells of is gone, nothing that can be believed bounds the tenant: `damaged`. Call in the storing transaction.
 */
export async function exceedsTenantCeiling(
  client: pg.Client,
  seals: Pick<Seals, "check">,
  { tenant, purpose, ceiling }: KeyRequest,
): Promise<Refusal | "damaged" | undefined> {
  if (purpose !== "account_root") return undefined;
  const { rows } = await client.query<KeyRow & Superseded>(
    `SELECT keys.*, ${KEY_SUPERSEDED} AS superseded FROM keys WHERE tenant = $1 AND purpose = 'account_root'`,
    [tenant],
  );
  if (await isOneGone(client, tenant, rows)) return "damaged";
  if ((await seals.check({ keys: rows, tenants: [] })).includes(false)) return "damaged";
  const within = ({ ceiling: recorded }: KeyRow): boolean =>
    recorded === null || (ceiling !== undefined && beyondCeiling(recorded, ceiling).length === 0);
  return rows.length === 0 || rows.some(within)
    ? undefined
    : refuse("policy_violation", "The tenant's root keys have a ceiling; another root needs one within it");
}

async function isOneGone(client: pg.Client, tenant: string, roots: readonly KeyRow[]): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT FROM audit WHERE detail ->> 'tenant' = $1 AND outcome = 'granted' AND statement = 'key_create'
       AND purpose = 'account_root' AND key_id <> ALL ($2) LIMIT 1`,
    [tenant, roots.map(({ key_id }) => key_id)],
  );
  return rows.length > 0;
}

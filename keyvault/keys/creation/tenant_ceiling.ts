import type pg from "pg";
import { beyondCeiling } from "../../../src/protocol/documents/scopes.ts";
import type { RowCodes } from "../../audit/row_codes.ts";
import type { KeyRow } from "../../db/rows.ts";
import { type Refusal, refuse } from "../../errors.ts";
import type { KeyRequest } from "./create.ts";

/**
 * A tenant's ceiling is what its root keys, disabled ones included, were bounded to: a further root stays
 * within that of one of them. Without this rule a caller could widen what a tenant may delegate by making it
 * another root. The audit (`known`) says which keys are its roots, not their rows. Where one of those is gone
 * or not as the vault wrote it, nothing that can be believed bounds the tenant: `damaged`. Call in the
 * storing transaction.
 */
export async function exceedsTenantCeiling(
  client: pg.Client,
  { rowCodes, known }: { rowCodes: Pick<RowCodes, "check">; known: readonly string[] },
  { purpose, ceiling }: KeyRequest,
): Promise<Refusal | "damaged" | undefined> {
  if (purpose !== "account_root") return undefined;
  const { rows } = await client.query<KeyRow>("select * from keys where key_id = any($1)", [known]);
  const roots = rows.filter((row) => row.purpose === "account_root");
  const stored = new Set(roots.map(({ key_id }) => key_id));
  if (!known.every((keyId) => stored.has(keyId))) return "damaged";
  if ((await rowCodes.check({ keys: rows, tenants: [] })).includes(false)) return "damaged";
  const within = ({ ceiling: recorded }: KeyRow): boolean =>
    recorded === null || (ceiling !== undefined && beyondCeiling(recorded, ceiling).length === 0);
  return rows.length === 0 || rows.some(within)
    ? undefined
    : refuse(
        "policy_violation",
        "The tenant's root keys have a ceiling; give the new one a ceiling within it",
      );
}

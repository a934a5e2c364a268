import type pg from "pg";
import { type Refusal, refuse } from "../../errors.ts";

/**
 * Refuses a tenant's key beyond its quota; destroyed keys do not count, and a quota of 0 means no quota. Call
 * in the storing transaction.
 */
export async function exceedsQuota(
  client: pg.Client,
  tenant: string,
  quota: number,
): Promise<Refusal | undefined> {
  if (quota === 0) return undefined;
  const { rowCount } = await client.query(
    "select from keys where tenant = $1 and state <> 'destroyed' limit $2",
    [tenant, quota],
  );
  return (rowCount ?? 0) < quota
    ? undefined
    : refuse("policy_violation", `The tenant has ${quota} keys already`);
}

import type { Pool, PoolClient } from "pg";
import { addSeconds } from "../clock.ts";
import type { DelegationCert } from "../protocol/certificate.ts";

/** How often a certificate was allowed in the last `windowSeconds`. */
export type CountAllows = (certId: string, windowSeconds: number) => Promise<number>;

/** Whether a certificate limits how often it may be used (wire format §7, `max_rate`). */
export function isRated(certificate: DelegationCert): boolean {
  return certificate.constraints.some((constraint) => constraint.type === "max_rate");
}

/**
 * Runs `work` while nobody else can decide on these certificates, so that what it counts is still true when its
 * decision commits: the rows are locked first, and only a statement that starts afterwards sees what the one before
 * has recorded. `pool` is small and for this alone, so that waiting for a busy certificate delays no other decision.
 */
export async function withCountedAllows<T>(
  pool: Pool,
  certificates: { accountId: string; certId: string }[],
  now: Date,
  work: (client: PoolClient, countAllows: CountAllows) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query("begin");
    await client.query(
      `select from certificates where (account_id, cert_id) in (select * from unnest($1::uuid[], $2::text[]))
       order by account_id, cert_id for update`,
      [certificates.map(({ accountId }) => accountId), certificates.map(({ certId }) => certId)],
    );
    const result = await work(client, async (certId, windowSeconds) => {
      const { rows } = await client.query<{ count: number }>(
        "select count(*) from audit_events where cert_id = $1 and decision = 'allow' and occurred_at > $2",
        [certId, addSeconds(now, -windowSeconds)],
      );
      return rows[0]?.count ?? 0;
    });
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback").catch((failure: Error) => {
      broken = failure;
    });
    throw error;
  } finally {
    client.release(broken);
  }
}

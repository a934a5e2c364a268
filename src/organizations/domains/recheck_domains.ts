import { addSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { OrganizationDomainRow } from "../../db/tables.ts";
import type { Logger } from "../../log.ts";
import { lapse } from "./domain_records.ts";
import { stateOf, type VerifyDomainDeps } from "./verify_domain.ts";

const DAY = 24 * 60 * 60;
/** Seconds of failing after which a domain is verified no more. */
export const LAPSE_SECONDS = 7 * DAY;
const AT_ONCE = 10;

type RecheckDeps = VerifyDomainDeps & { log: Logger; signal: AbortSignal };

/**
 * Looks the records of verified domains up again, each once a day over all replicas. One whose record has not
 * been found for 7 days is verified no more, and its platforms are suspended.
 */
export async function recheckDomains(deps: RecheckDeps): Promise<void> {
  for (;;) {
    const due = await claimDue(deps.db, deps.clock.now());
    await Promise.all(due.map((row) => recheck(deps, row)));
    if (due.length < AT_ONCE || deps.signal.aborted) return;
  }
}

/** A look-up that a process dies with is made a day later. */
async function claimDue(db: Database, now: Date): Promise<OrganizationDomainRow[]> {
  const { rows } = await db.raw<{ rows: OrganizationDomainRow[] }>(
    `update organization_domains d set checked_at = :now
     from (select organization_id, domain from organization_domains
       where verified_at is not null and checked_at <= :due
       order by checked_at limit :count for update skip locked) as due
     where d.organization_id = due.organization_id and d.domain = due.domain
     returning d.*`,
    { now, due: addSeconds(now, -DAY), count: AT_ONCE },
  );
  return rows;
}

async function recheck(deps: RecheckDeps, row: OrganizationDomainRow): Promise<void> {
  const { db, clock, log } = deps;
  const isFound = (await stateOf(deps, row)) === "found";
  const now = clock.now();
  const { organization_id, domain, token } = row;
  const failingSince = isFound ? null : (row.failing_since ?? now);
  await db.transaction(async (tx) => {
    const still = await tx("organization_domains")
      .where({ organization_id, domain, token })
      .whereNotNull("verified_at")
      .update({ failing_since: failingSince });
    if (still === 0 || failingSince === null) return;
    if (addSeconds(failingSince, LAPSE_SECONDS) > now) return;
    await lapse(tx, row);
    log.warn(
      { account_id: organization_id },
      "a domain's record was gone for 7 days: it is verified no more",
    );
  });
}

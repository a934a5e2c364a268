import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { OrganizationDomainRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { challengeOf, findDomain, lapse } from "./domain_records.ts";
import type { TxtLookup } from "./txt_lookup.ts";

/** What verifying domains works with; `word` is the service's. */
export type VerifyDomainDeps = { db: Database; clock: Clock; lookupTxt: TxtLookup; word: string };

/**
 * Verifies a domain by its TXT record. One organization at most has a domain: another that verified it before
 * keeps it for as long as its own record is there or cannot be looked up. Throws `not_found`,
 * `domain_record_missing`, `domain_taken`, and `unavailable` when DNS gave no answer.
 */
export async function verifyDomain(
  deps: VerifyDomainDeps,
  organizationId: string,
  domain: string,
): Promise<OrganizationDomainRow> {
  const { db, clock } = deps;
  const row = await findDomain(db, organizationId, domain);
  await requireRecord(deps, row);
  const former = await db("organization_domains")
    .where({ domain })
    .whereNotNull("verified_at")
    .whereNot({ organization_id: organizationId })
    .first();
  if (former !== undefined && (await stateOf(deps, former)) !== "absent") throw new ApiError("domain_taken");
  return db.transaction(async (tx) => {
    await tx.raw("select pg_advisory_xact_lock(hashtextextended(?, 1))", [domain]);
    if (former !== undefined) await lapse(tx, former);
    const now = clock.now();
    const taken = tx("organization_domains as o")
      .select("o.domain")
      .where("o.domain", domain)
      .whereNotNull("o.verified_at")
      .whereNot("o.organization_id", organizationId);
    const [verified] = await tx("organization_domains")
      .where({ organization_id: organizationId, domain, token: row.token })
      .whereNotExists(taken)
      .update({
        verified_at: tx.raw("coalesce(verified_at, ?)", [now]),
        checked_at: now,
        failing_since: null,
      })
      .returning("*");
    if (verified === undefined) throw new ApiError("domain_taken");
    return verified;
  });
}

async function requireRecord(deps: VerifyDomainDeps, row: OrganizationDomainRow): Promise<void> {
  const state = await stateOf(deps, row);
  if (state !== "found") await noteLookup(deps, row);
  if (state === "unknown") throw new ApiError("unavailable", "DNS gave no answer; try again later");
  if (state === "absent") throw new ApiError("domain_record_missing");
}

/**
 * Notes when a record was looked up in vain. Not of a verified domain: its daily look-up is due by that time,
 * and would be put off.
 */
async function noteLookup({ db, clock }: VerifyDomainDeps, row: OrganizationDomainRow): Promise<void> {
  const { organization_id, domain, token } = row;
  await db("organization_domains")
    .where({ organization_id, domain, token, verified_at: null })
    .update({ checked_at: clock.now() });
}

/** Whether the record of an organization's domain is there now. */
export async function stateOf({ lookupTxt, word }: VerifyDomainDeps, row: OrganizationDomainRow) {
  const { name, value } = challengeOf(word, row);
  return lookupTxt(name, value);
}

import { Resolver } from "node:dns/promises";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { OrganizationDomainRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { challengeOf, findDomain, lapse } from "./domain_records.ts";

/** Milliseconds for one DNS query, and for a whole lookup. */
const TRY_MS = 1_500;
const TRIES = 2;
const WHOLE_MS = 5_000;

/** `unknown` means that no DNS server responded. */
type TxtState = "found" | "absent" | "unknown";

/** Looks up a TXT record in DNS. */
export type TxtLookup = (name: string, value: string) => Promise<TxtState>;

/** DNS errors that mean that no such record exists. */
const NONE = new Set(["ENOTFOUND", "ENODATA"]);

/**
 * Creates a function that looks up TXT records at these servers (`<address>` or `<address>:<port>`), or at
 * the machine's own if there are none. It sends only TXT queries. A lookup ends after 5 seconds.
 */
export function createTxtLookup(servers: readonly string[], wholeMs = WHOLE_MS): TxtLookup {
  return async (name, value) => {
    const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
    if (servers.length > 0) resolver.setServers(servers);
    const late = setTimeout(() => resolver.cancel(), wholeMs);
    try {
      const records = await resolver.resolveTxt(name);
      return records.some((chunks) => chunks.join("") === value) ? "found" : "absent";
    } catch (error) {
      return NONE.has((error as NodeJS.ErrnoException).code ?? "") ? "absent" : "unknown";
    } finally {
      clearTimeout(late);
    }
  };
}

/** Dependencies for verifying domains. `word` is the configured service name. */
export type VerifyDomainDeps = { db: Database; clock: Clock; lookupTxt: TxtLookup; word: string };

/**
 * Verifies a domain by its TXT record. Only one organization can hold a domain. An organization that verified
 * the domain earlier keeps it while its own record exists or cannot be looked up. Throws `not_found`,
 * `domain_record_missing`, `domain_taken`, and `unavailable` if DNS did not respond.
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
  if (state === "unknown") throw new ApiError("unavailable", "DNS did not answer; try again later");
  if (state === "absent") throw new ApiError("domain_record_missing");
}

/** Skips verified domains: their `checked_at` also schedules the daily lookup, which would be delayed. */
async function noteLookup({ db, clock }: VerifyDomainDeps, row: OrganizationDomainRow): Promise<void> {
  const { organization_id, domain, token } = row;
  await db("organization_domains")
    .where({ organization_id, domain, token, verified_at: null })
    .update({ checked_at: clock.now() });
}

async function stateOf({ lookupTxt, word }: VerifyDomainDeps, row: OrganizationDomainRow) {
  const { name, value } = challengeOf(word, row);
  return lookupTxt(name, value);
}

const DAY = 24 * 60 * 60;
/** Seconds of failed lookups after which a domain loses its verification. */
const LAPSE_SECONDS = 7 * DAY;
const BATCH_SIZE = 10;

type RecheckDeps = VerifyDomainDeps & { log: Logger; signal: AbortSignal };

/**
 * Looks up each verified domain's record once a day across all replicas. A domain whose record was missing
 * for 7 days loses its verification, and its platforms are suspended.
 */
export async function recheckDomains(deps: RecheckDeps): Promise<void> {
  for (;;) {
    const due = await claimDue(deps.db, deps.clock.now());
    await Promise.all(due.map((row) => recheck(deps, row)));
    if (due.length < BATCH_SIZE || deps.signal.aborted) return;
  }
}

/** If the process dies during a lookup, the domain's next lookup happens a day later. */
async function claimDue(db: Database, now: Date): Promise<OrganizationDomainRow[]> {
  const { rows } = await db.raw<{ rows: OrganizationDomainRow[] }>(
    `update organization_domains d set checked_at = :now
     from (select organization_id, domain from organization_domains
       where verified_at is not null and checked_at <= :due
       order by checked_at limit :count for update skip locked) as due
     where d.organization_id = due.organization_id and d.domain = due.domain
     returning d.*`,
    { now, due: addSeconds(now, -DAY), count: BATCH_SIZE },
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
      "a domain's record was missing for 7 days: it is no longer verified",
    );
  });
}

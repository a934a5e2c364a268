import { randomBytes } from "node:crypto";
import { parse } from "tldts";
import { z } from "zod";
import { canonicalDomain } from "../accounts/email.ts";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { OrganizationDomainRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { lockMembers } from "./members.ts";

/** A domain as a caller sends it. {@link readDomain} checks whether the domain can be verified. */
export const domainText = z.string().min(1).max(253).describe("Such as example.com; any script");

/**
 * Returns a domain in lower-case ASCII (IDNA). Throws `invalid_domain` for IP addresses, names under `arpa`,
 * names without a public suffix, and public suffixes themselves, including private ones such as `github.io`:
 * the names under a public suffix belong to different owners.
 */
export function readDomain(text: string): string {
  const domain = canonicalDomain(text);
  const found = domain === undefined ? undefined : parse(domain, { allowPrivateDomains: true });
  const isRegistrable = found?.domain != null && (found.isIcann === true || found.isPrivate === true);
  const isReverse = found?.publicSuffix?.endsWith("arpa") === true;
  if (domain === undefined || !isRegistrable || isReverse) throw new ApiError("invalid_domain");
  return domain;
}

const MAX_DOMAINS = 20;

type Challenge = { name: string; value: string };

/** Returns the TXT record that verifies a domain. Its name and value contain the service name. */
export function challengeOf(word: string, { domain, token }: OrganizationDomainRow): Challenge {
  return { name: `_${word}-challenge.${domain}`, value: `${word}-verification=${token}` };
}

/** Returns the organization's domain. Throws `not_found` if the organization has not added it. */
export async function findDomain(
  db: Database | Transaction,
  organizationId: string,
  domain: string,
): Promise<OrganizationDomainRow> {
  const row = await db("organization_domains").where({ organization_id: organizationId, domain }).first();
  if (row === undefined) throw new ApiError("not_found");
  return row;
}

/** Adds a domain, unless it was already added. Throws `domain_limit` if the organization has too many. */
export async function addDomain(
  { db, clock }: { db: Database; clock: Clock },
  organizationId: string,
  domain: string,
): Promise<OrganizationDomainRow> {
  return db.transaction(async (tx) => {
    await lockMembers(tx, organizationId);
    const named = await tx("organization_domains").where({ organization_id: organizationId });
    const known = named.find((each) => each.domain === domain);
    if (known !== undefined) return known;
    if (named.length >= MAX_DOMAINS) throw new ApiError("domain_limit");
    const [row] = await tx("organization_domains")
      .insert({
        organization_id: organizationId,
        domain,
        token: randomBytes(16).toString("hex"),
        created_at: clock.now(),
      })
      .returning("*");
    if (row === undefined) throw new Error("The domain was not stored");
    return row;
  });
}

/** Removes a domain and suspends the platforms published under it. Throws `not_found`. */
export async function removeDomain(db: Database, organizationId: string, domain: string): Promise<void> {
  await db.transaction(async (tx) => {
    await findDomain(tx, organizationId, domain);
    await suspendPlatforms(tx, organizationId, domain);
    await tx("organization_domains").where({ organization_id: organizationId, domain }).delete();
  });
}

/**
 * Marks a domain as unverified and suspends the platforms published under it. Does nothing if the domain was
 * removed and added again, which gave it another record.
 */
export async function lapse(
  tx: Transaction,
  { organization_id, domain, token }: Pick<OrganizationDomainRow, "organization_id" | "domain" | "token">,
): Promise<void> {
  const lapsed = await tx("organization_domains")
    .where({ organization_id, domain, token })
    .update({ verified_at: null, failing_since: null });
  if (lapsed > 0) await suspendPlatforms(tx, organization_id, domain);
}

async function suspendPlatforms(tx: Transaction, organizationId: string, domain: string): Promise<void> {
  await tx("organization_domains")
    .select("domain")
    .where({ organization_id: organizationId, domain })
    .forUpdate();
  await tx("platforms")
    .where({ account_id: organizationId, published_domain: domain, publish_state: "published" })
    .update({ publish_state: "suspended" });
}

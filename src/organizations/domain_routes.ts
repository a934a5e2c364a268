import { z } from "zod";
import type { Database } from "../db/database.ts";
import type { OrganizationDomainRow } from "../db/tables.ts";
import { idText, isoTime } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { addDomain, challengeOf, domainText, readDomain, removeDomain } from "./domain_records.ts";
import { requireOrganization } from "./members.ts";
import type { OrganizationRates } from "./rates.ts";
import { type VerifyDomainDeps, verifyDomain } from "./verify_domain.ts";

const path = "/v1/service/organization/domains";
const params = z.object({ domain: idText });

const shown = z.object({
  domain: z.string().describe("In lower-case ASCII, as in DNS"),
  verified_at: isoTime.nullable(),
  checked_at: isoTime.nullable().describe("When its record was last looked up"),
  failing_since: isoTime.nullable().describe("When the record of a verified domain was first not found"),
  created_at: isoTime,
  record: z
    .object({ type: z.literal("TXT"), name: z.string(), value: z.string() })
    .describe("The record that the domain's DNS must contain, and keep"),
});

/** A domain, as the API returns it. */
export type OrganizationDomainAnswer = z.infer<typeof shown>;

/** Dependencies of the domain operations. */
export type DomainDeps = VerifyDomainDeps & { organizationRates: Pick<OrganizationRates, "takeLookup"> };

/** Returns the operations on the domains under which an organization publishes platforms. */
export function domainRoutes(deps: DomainDeps): Route[] {
  return [addRoute(deps), listRoute(deps), verifyRoute(deps), removeRoute(deps)];
}

function addRoute(deps: VerifyDomainDeps): Route {
  return route({
    id: "add_organization_domain",
    method: "POST",
    path,
    summary: "Add a domain of the organization, to be verified by a TXT record",
    access: "session",
    idempotent: true,
    body: z.object({ domain: domainText }),
    activityDetails: ({ domain }) => ({ domain }),
    answer: { status: 201, schema: shown, description: "The domain, and the record that verifies it" },
    errors: ["not_available", "invalid_domain", "domain_limit"],
    async handle({ caller, body }) {
      requireOrganization(caller);
      return { body: show(deps.word, await addDomain(deps, caller.accountId, readDomain(body.domain))) };
    },
  });
}

function listRoute({ db, word }: VerifyDomainDeps): Route {
  return route({
    id: "list_organization_domains",
    method: "GET",
    path,
    summary: "List the organization's domains",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    answer: { status: 200, schema: z.object({ domains: z.array(shown) }), description: "By name" },
    errors: ["not_available"],
    async handle({ caller }) {
      requireOrganization(caller);
      const rows = await db("organization_domains")
        .where({ organization_id: caller.accountId })
        .orderBy("domain");
      return { body: { domains: rows.map((row) => show(word, row)) } };
    },
  });
}

function verifyRoute(deps: DomainDeps): Route {
  return route({
    id: "verify_organization_domain",
    method: "POST",
    path: `${path}/{domain}/verify`,
    summary: "Look up a domain's TXT record now",
    access: "session",
    idempotent: true,
    params,
    answer: {
      status: 200,
      schema: shown,
      description: "The domain is verified; its record is looked up again every day",
    },
    errors: ["not_available", "not_found", "domain_record_missing", "domain_taken", "rate_limited"],
    async handle({ caller, params }) {
      requireOrganization(caller);
      await deps.organizationRates.takeLookup(caller.accountId);
      return { body: show(deps.word, await verifyDomain(deps, caller.accountId, params.domain)) };
    },
  });
}

function removeRoute({ db }: { db: Database }): Route {
  return route({
    id: "remove_organization_domain",
    method: "DELETE",
    path: `${path}/{domain}`,
    summary: "Remove a domain; platforms published under it are suspended",
    access: "session",
    idempotent: true,
    params,
    answer: {
      status: 200,
      schema: z.object({ domain: z.string(), removed: z.literal(true) }),
      description: "The domain no longer belongs to the organization",
    },
    errors: ["not_available", "not_found"],
    async handle({ caller, params: { domain } }) {
      requireOrganization(caller);
      await removeDomain(db, caller.accountId, domain);
      return { body: { domain, removed: true as const } };
    },
  });
}

function show(word: string, row: OrganizationDomainRow): OrganizationDomainAnswer {
  const time = (moment: Date | null) => (moment === null ? null : moment.toISOString());
  return {
    domain: row.domain,
    verified_at: time(row.verified_at),
    checked_at: time(row.checked_at),
    failing_since: time(row.failing_since),
    created_at: row.created_at.toISOString(),
    record: { type: "TXT", ...challengeOf(word, row) },
  };
}

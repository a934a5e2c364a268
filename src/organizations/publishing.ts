import { z } from "zod";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import { idText } from "../input/schemas.ts";
import { platformAnswer, showPlatform } from "../platforms/platform_answers.ts";
import { findPlatform, type LivePlatform } from "../platforms/platform_record.ts";
import { checkRedirectUris } from "../platforms/redirect_uris.ts";
import { type Route, route } from "../route.ts";
import { domainText } from "./domain_records.ts";
import { requireOrganization } from "./members.ts";

/**
 * Publishes a platform under a verified domain. Without `domain`, uses the domain that was verified first.
 * Throws `not_found` and `domain_not_verified`, and `invalid_redirect_uri` if a redirect URI is elsewhere.
 */
async function publishPlatform(
  db: Database,
  accountId: string,
  platformId: string,
  domain: string | undefined,
): Promise<LivePlatform> {
  return db.transaction(async (tx) => {
    const { redirect_uris } = await findPlatform(tx, accountId, platformId);
    const verified = await tx("organization_domains")
      .where({ organization_id: accountId, ...(domain === undefined ? {} : { domain }) })
      .whereNotNull("verified_at")
      .orderBy(["verified_at", "domain"])
      .forShare()
      .first("domain");
    if (verified === undefined) throw new ApiError("domain_not_verified");
    checkRedirectUris(redirect_uris, verified.domain);
    return setState(tx, accountId, platformId, {
      publish_state: "published",
      published_domain: verified.domain,
    });
  });
}

async function unpublishPlatform(db: Database, accountId: string, platformId: string): Promise<LivePlatform> {
  return db.transaction(async (tx) => {
    await findPlatform(tx, accountId, platformId);
    return setState(tx, accountId, platformId, { publish_state: "draft", published_domain: null });
  });
}

async function setState(
  tx: Transaction,
  accountId: string,
  platformId: string,
  state: Pick<LivePlatform, "publish_state" | "published_domain">,
): Promise<LivePlatform> {
  await tx("platforms").where({ account_id: accountId, platform_id: platformId }).update(state);
  return findPlatform(tx, accountId, platformId);
}

const params = z.object({ platform_id: idText });

/** Returns the operations that publish and unpublish platforms. */
export function publishRoutes({ db }: { db: Database }): Route[] {
  return [publishRoute(db), unpublishRoute(db), publishedRoute(db)];
}

function publishRoute(db: Database): Route {
  return route({
    id: "publish_platform",
    method: "POST",
    path: "/v1/service/platforms/{platform_id}/publish",
    summary: "Publish a platform under a verified domain",
    access: "session",
    idempotent: true,
    params,
    body: z
      .object({ domain: domainText.optional().describe("Default: the domain that was verified first") })
      .optional(),
    activityDetails: (body) => (body?.domain === undefined ? {} : { domain: body.domain }),
    answer: { status: 200, schema: platformAnswer, description: "The published platform" },
    errors: ["not_found", "not_available", "domain_not_verified", "invalid_redirect_uri"],
    async handle({ caller, params: { platform_id }, body }) {
      await findPlatform(db, caller.accountId, platform_id);
      requireOrganization(caller);
      return { body: showPlatform(await publishPlatform(db, caller.accountId, platform_id, body?.domain)) };
    },
  });
}

function unpublishRoute(db: Database): Route {
  return route({
    id: "unpublish_platform",
    method: "POST",
    path: "/v1/service/platforms/{platform_id}/unpublish",
    summary: "Make a platform a draft again",
    access: "session",
    ends: true,
    idempotent: true,
    params,
    answer: { status: 200, schema: platformAnswer, description: "The platform, which is a draft again" },
    errors: ["not_found", "not_available"],
    async handle({ caller, params: { platform_id } }) {
      await findPlatform(db, caller.accountId, platform_id);
      requireOrganization(caller);
      return { body: showPlatform(await unpublishPlatform(db, caller.accountId, platform_id)) };
    },
  });
}

const published = platformAnswer
  .pick({ platform_id: true, name: true, description: true, surface_type: true })
  .extend({
    publisher: z
      .object({ name: z.string(), domain: z.string(), human_id: z.string() })
      .describe("The organization, its verified domain, and its root identity"),
  });

function publishedRoute(db: Database): Route {
  return route({
    id: "get_published_platform",
    method: "GET",
    path: "/v1/registry/platforms/{platform_id}",
    summary: "Read who publishes a platform, and under which verified domain",
    access: "public",
    params,
    answer: { status: 200, schema: published, description: "The published platform" },
    errors: ["not_found"],
    async handle({ params: { platform_id } }) {
      const row = isUuid(platform_id) ? await findPublished(db, platform_id) : undefined;
      if (row === undefined) throw new ApiError("not_found");
      const { organization_name, published_domain, human_id, ...platform } = row;
      return {
        body: {
          ...platform,
          publisher: { name: organization_name, domain: published_domain, human_id },
        },
      };
    },
  });
}

async function findPublished(db: Database, platformId: string) {
  return db("platforms as p")
    .join("accounts as a", "a.account_id", "p.account_id")
    .where({ "p.platform_id": platformId, "p.publish_state": "published" })
    .whereNull("p.removed_at")
    .first(
      "p.platform_id",
      "p.name",
      "p.description",
      "p.surface_type",
      "p.published_domain",
      "a.organization_name",
      "a.human_id",
    );
}

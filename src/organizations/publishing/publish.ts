import type { Database, Transaction } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { findPlatform, type LivePlatform } from "../../platforms/platform_record.ts";

/**
 * Publishes an organization's platform under one of its verified domains: the named one, else the one that
 * was verified first. Throws `not_found` and `domain_not_verified`.
 */
export async function publishPlatform(
  db: Database,
  accountId: string,
  platformId: string,
  domain: string | undefined,
): Promise<LivePlatform> {
  return db.transaction(async (tx) => {
    await findPlatform(tx, accountId, platformId);
    const verified = await tx("organization_domains")
      .where({ organization_id: accountId, ...(domain === undefined ? {} : { domain }) })
      .whereNotNull("verified_at")
      .orderBy(["verified_at", "domain"])
      .forShare()
      .first("domain");
    if (verified === undefined) throw new ApiError("domain_not_verified");
    return setState(tx, accountId, platformId, {
      publish_state: "published",
      published_domain: verified.domain,
    });
  });
}

/** Makes a platform a draft again. Throws `not_found`. */
export async function unpublishPlatform(
  db: Database,
  accountId: string,
  platformId: string,
): Promise<LivePlatform> {
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

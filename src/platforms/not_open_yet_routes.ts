import { z } from "zod";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { idText } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { findPlatform } from "./platform_record.ts";

const params = z.object({ platform_id: idText });

/**
 * Operations of organizations that are named and not open yet: publishing, team members, domain verification.
 * All are refused with `not_available`, whatever the caller or the body; another account's platform is
 * `not_found` as ever.
 */
export function laterRoutes({ db }: { db: Database }): Route[] {
  return [
    route({
      id: "publish_platform",
      method: "POST",
      path: "/v1/service/platforms/{platform_id}/publish",
      summary: "Publish a platform; not open yet",
      access: "session",
      idempotent: true,
      params,
      errors: ["not_found", "not_available"],
      async handle({ caller, params }) {
        await findPlatform(db, caller.accountId, params.platform_id);
        throw new ApiError("not_available", "Platforms cannot be published yet");
      },
    }),
    route({
      id: "add_organization_domain",
      method: "POST",
      path: "/v1/service/organization/domains",
      summary: "Have an organization's domain verified; not open yet",
      access: "session",
      idempotent: true,
      errors: ["not_available"],
      async handle() {
        throw new ApiError("not_available", "Domains cannot be verified yet");
      },
    }),
  ];
}

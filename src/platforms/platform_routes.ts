import { z } from "zod";
import type { Clock } from "../clock.ts";
import { isUuid } from "../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { platformDescription, platformName, scopeList } from "../input/platform_fields.ts";
import { idText } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { platformAnswer, showPlatform } from "./answers.ts";
import { changePlatform } from "./change_platform.ts";
import { findPlatform, type LivePlatform, selectPlatforms } from "./platform_record.ts";
import type { VaultSyncDeps } from "./sync_vault.ts";

type Deps = VaultSyncDeps & { clock: Clock };

const newestFirst: PageOrder = { time: "p.created_at", id: "p.platform_id", isId: isUuid };
const params = z.object({ platform_id: idText });

/** `GET /v1/service/platforms`: the account's platforms, newest first. */
export function listPlatformsRoute({ db }: Deps): Route {
  return route({
    id: "list_platforms",
    method: "GET",
    path: "/v1/service/platforms",
    summary: "List platforms",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query: pageQuery,
    answer: { status: 200, schema: pageOf(platformAnswer), description: "A page of platforms, newest first" },
    errors: [],
    async handle({ caller, query }) {
      const found = selectPlatforms(db).where({ "p.account_id": caller.accountId }).whereNull("p.removed_at");
      const { rows, next_cursor } = await readPage<LivePlatform>(found, newestFirst, query);
      return { body: { items: rows.map(showPlatform), next_cursor } };
    },
  });
}

/** `GET /v1/service/platforms/{platform_id}`. */
export function getPlatformRoute({ db }: Deps): Route {
  return route({
    id: "get_platform",
    method: "GET",
    path: "/v1/service/platforms/{platform_id}",
    summary: "Read a platform",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params,
    answer: { status: 200, schema: platformAnswer, description: "The platform, without secrets" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      return { body: showPlatform(await findPlatform(db, caller.accountId, params.platform_id)) };
    },
  });
}

const change = z.object({
  name: platformName.optional(),
  description: platformDescription.optional(),
  default_allowed_scopes: scopeList.optional().describe("May only shrink"),
});

/** `PATCH /v1/service/platforms/{platform_id}`. */
export function changePlatformRoute(deps: Deps): Route {
  return route({
    id: "change_platform",
    method: "PATCH",
    path: "/v1/service/platforms/{platform_id}",
    summary: "Change a platform's name, description or, narrower, its ceiling",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    body: change,
    answer: { status: 200, schema: platformAnswer, description: "The platform as it is now" },
    errors: ["not_found", "invalid_scopes", "ceiling_widened"],
    async handle({ caller, params, body }) {
      return { body: showPlatform(await changePlatform(deps, caller.accountId, params.platform_id, body)) };
    },
  });
}

import { z } from "zod";
import type { Clock } from "../clock.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../input/pagination.ts";
import {
  explanationValues,
  platformDescription,
  platformName,
  redirectUriList,
  scopeDescriptions,
  scopeList,
} from "../input/platform_fields.ts";
import { idText } from "../input/schemas.ts";
import type { ActionLimits } from "../rates/action_limits.ts";
import { type Answer, type Route, route } from "../route.ts";
import { findOwner, type Owner } from "./account_owner.ts";
import { changePlatform } from "./change_platform.ts";
import {
  platformAnswer,
  type RegisteredAnswer,
  registeredAnswer,
  registrationBody,
  showPlatform,
  showRegistered,
} from "./platform_answers.ts";
import { findShownPlatform, type PlatformRecord, selectShownPlatforms } from "./platform_record.ts";
import { type RegisterDeps, registerPlatform } from "./register_platform.ts";
import type { VaultSyncDeps } from "./sync_vault.ts";

type Registration = { id: string; path: string; summary: string; accountType: Owner["accountType"] };

const personal: Registration = {
  id: "register_personal_platform",
  path: "/v1/service/platforms/personal",
  summary: "Register the platform of a personal account",
  accountType: "individual",
};

const organization: Registration = {
  id: "register_platform",
  path: "/v1/service/platforms",
  summary: "Register a platform of an organization",
  accountType: "organization",
};

type RegistrationDeps = RegisterDeps & { actionLimits: ActionLimits };

/** Returns `POST /v1/service/platforms/personal` and, for organizations, `POST /v1/service/platforms`. */
export function registrationRoutes(deps: RegistrationDeps): Route[] {
  return [personal, organization].map((kind) => registrationRoute(deps, kind));
}

function registrationRoute(deps: RegistrationDeps, { id, path, summary, accountType }: Registration): Route {
  return route({
    id,
    method: "POST",
    path,
    summary,
    access: "session",
    roles: ["developer"],
    idempotent: true,
    showsSecret: true,
    body: registrationBody,
    answer: {
      status: 201,
      schema: registeredAnswer,
      description: "The platform, with its secrets shown once",
    },
    errors: [
      "not_available",
      "surface_not_available",
      "invalid_scopes",
      "invalid_callback_url",
      "action_limited",
      ...(accountType === "individual" ? (["platform_limit"] as const) : []),
    ],
    async handle({ caller, body }) {
      const owner = await findOwner(deps.db, caller.accountId);
      if (owner.accountType !== accountType) {
        throw new ApiError("not_available", `Only accounts of type ${accountType} can do this`);
      }
      const person = [caller.accountId, caller.person.accountId];
      return deps.actionLimits.within("create_platform", person, () => register(deps, owner, body));
    },
  });
}

async function register(
  deps: RegisterDeps,
  owner: Owner,
  registration: z.infer<typeof registrationBody>,
): Promise<Answer<RegisteredAnswer>> {
  const { record, credentials } = await registerPlatform(deps, owner, {
    name: registration.name,
    description: registration.description ?? "",
    surfaceType: registration.surface_type,
    allowedScopes: registration.default_allowed_scopes,
    callbackUrl: registration.callback_url ?? null,
    scopeDescriptions: registration.scope_descriptions,
    explanationValues: registration.explanation_values,
    externalId: null,
    object: null,
  });
  const body = { ...showRegistered(record), ...credentials };
  return { body, activityDetails: { platform_id: body.platform_id, platform_name: body.name } };
}

type Deps = VaultSyncDeps & { clock: Clock };

const newestFirst: PageOrder = { time: "p.created_at", id: "p.platform_id", isId: isUuid };
const params = z.object({ platform_id: idText });

/** `GET /v1/service/platforms`: lists the account's platforms, newest first. */
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
      const found = selectShownPlatforms(db, caller.accountId);
      const { rows, next_cursor } = await readPage<PlatformRecord>(found, newestFirst, query);
      return { body: { items: rows.map(showPlatform), next_cursor } };
    },
  });
}

/** `GET /v1/service/platforms/{platform_id}`: returns a platform. */
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
      return { body: showPlatform(await findShownPlatform(db, caller.accountId, params.platform_id)) };
    },
  });
}

const change = z.object({
  name: platformName.optional(),
  description: platformDescription.optional(),
  default_allowed_scopes: scopeList.optional().describe("May only shrink"),
  scope_descriptions: scopeDescriptions.optional().describe("Replaces all words"),
  explanation_values: explanationValues.optional(),
  redirect_uris: redirectUriList.optional(),
});

/** `PATCH /v1/service/platforms/{platform_id}`: changes a platform. */
export function changePlatformRoute(deps: Deps): Route {
  return route({
    id: "change_platform",
    method: "PATCH",
    path: "/v1/service/platforms/{platform_id}",
    summary: "Change a platform's name, descriptions or, narrower, its ceiling",
    access: "session",
    ends: true,
    roles: ["developer"],
    idempotent: true,
    params,
    body: change,
    activityDetails: ({ explanation_values: kept }): Record<string, string> =>
      kept === undefined ? {} : { explanation_values: kept },
    answer: { status: 200, schema: platformAnswer, description: "The platform as it is now" },
    errors: ["not_found", "invalid_scopes", "ceiling_widened", "invalid_redirect_uri"],
    async handle({ caller, params, body }) {
      const place = { accountId: caller.accountId, platformId: params.platform_id };
      return { body: showPlatform(await changePlatform(deps, place, body)) };
    },
  });
}

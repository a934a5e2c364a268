import type { z } from "zod";
import { ApiError } from "../errors.ts";
import { type Answer, type Route, route } from "../route.ts";
import { findOwner, type Owner } from "./account_owner.ts";
import { type RegisteredAnswer, registeredAnswer, registrationBody, showRegistered } from "./answers.ts";
import { type RegisterDeps, registerPlatform } from "./register_platform.ts";

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

/** `POST /v1/service/platforms/personal` and, for organizations, `POST /v1/service/platforms`. */
export function registrationRoutes(deps: RegisterDeps): Route[] {
  return [personal, organization].map((kind) => registrationRoute(deps, kind));
}

function registrationRoute(deps: RegisterDeps, { id, path, summary, accountType }: Registration): Route {
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
      ...(accountType === "individual" ? (["platform_limit"] as const) : []),
    ],
    async handle({ caller, body }) {
      const owner = await findOwner(deps.db, caller.accountId);
      if (owner.accountType !== accountType) {
        throw new ApiError("not_available", `Only for accounts of type ${accountType}`);
      }
      return register(deps, owner, body);
    },
  });
}

async function register(
  deps: RegisterDeps,
  owner: Owner,
  wish: z.infer<typeof registrationBody>,
): Promise<Answer<RegisteredAnswer>> {
  const { record, credentials } = await registerPlatform(deps, owner, {
    name: wish.name,
    description: wish.description ?? "",
    surfaceType: wish.surface_type,
    allowedScopes: wish.default_allowed_scopes,
    callbackUrl: wish.callback_url ?? null,
    externalId: null,
    object: null,
  });
  const body = { ...showRegistered(record), ...credentials };
  return { body, told: { platform_id: body.platform_id, platform_name: body.name } };
}

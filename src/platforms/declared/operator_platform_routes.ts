import { z } from "zod";
import { acceptedPrincipalList, rotationBody } from "../../input/platform_fields.ts";
import { type Route, route } from "../../route.ts";
import { readAcceptance } from "../accepted_principals/routes.ts";
import { registeredShape, registrationBody } from "../answers.ts";
import { type RetireDeps, rotateKey } from "../api_keys/rotate_key.ts";
import { removeConnection } from "../connections/remove_connection.ts";
import type { LivePlatform } from "../platform_record.ts";
import {
  acknowledgeCredentials,
  type DeclareDeps,
  findDeclaredPlatform,
  putPlatform,
  requireDeclaredPlatform,
  undeliveredCredentials,
} from "./declared_platform.ts";
import { externalId, requireOwnObject } from "./own_object.ts";

type Deps = DeclareDeps & RetireDeps;

const path = "/internal/v1/platforms/{external_id}";
const params = z.object({ external_id: externalId });
const body = registrationBody.extend({
  account_email: z.string().min(1).max(320),
  accepted_principals: acceptedPrincipalList.optional().describe("Left out, those that are accepted stay"),
});

const state = registeredShape
  .pick({
    platform_id: true,
    connection_id: true,
    api_key_prefix: true,
    default_allowed_scopes: true,
    callback_url: true,
  })
  .extend({
    credentials: registeredShape
      .pick({ api_key: true, signing_secret: true, webhook_signing_secret: true })
      .nullable()
      .describe("The same ones with every answer until they are acknowledged"),
  });

/** `PUT /internal/v1/platforms/{external_id}`. */
export function putPlatformRoute(deps: Deps): Route {
  return route({
    id: "internal_put_platform",
    method: "PUT",
    path,
    summary: "Make a declared platform true",
    access: "operator",
    params,
    body,
    answer: {
      status: 200,
      schema: state,
      description: "The platform, with credentials not acknowledged yet",
    },
    errors: [
      "namespace_not_bound",
      "onboarding_incomplete",
      "invalid_scopes",
      "surface_not_available",
      "platform_limit",
      "ceiling_widened",
      "external_conflict",
      "invalid_callback_url",
      "invalid_principal",
      "principal_limit",
    ],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id);
      const record = await putPlatform(deps, {
        externalId: params.external_id,
        accountEmail: body.account_email,
        name: body.name,
        description: body.description ?? "",
        surfaceType: body.surface_type,
        allowedScopes: body.default_allowed_scopes,
        callbackUrl: body.callback_url,
        acceptedPrincipals: body.accepted_principals?.map(readAcceptance),
      });
      return { body: await showState(deps, record) };
    },
  });
}

/** `POST /internal/v1/platforms/{external_id}/credentials/acknowledge`. */
export function acknowledgeRoute({ db }: Deps): Route {
  return route({
    id: "internal_acknowledge_credentials",
    method: "POST",
    path: `${path}/credentials/acknowledge`,
    summary: "Say that a platform's credentials are stored",
    access: "operator",
    params,
    body: z.object({ api_key_prefix: z.string().min(1).max(100) }),
    answer: { status: 200, schema: z.object({ acknowledged: z.literal(true) }), description: "Acknowledged" },
    errors: ["not_found", "external_conflict"],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id);
      await acknowledgeCredentials(db, params.external_id, body.api_key_prefix);
      return { body: { acknowledged: true } };
    },
  });
}

/**
 * `POST /internal/v1/platforms/{external_id}/credentials/rotate`: for when the stored ones are gone or due.
 */
export function rotateCredentialsRoute(deps: Deps): Route {
  return route({
    id: "internal_rotate_credentials",
    method: "POST",
    path: `${path}/credentials/rotate`,
    summary: "Replace a platform's API key",
    access: "operator",
    params,
    body: rotationBody,
    answer: { status: 200, schema: state, description: "The platform, with its credentials" },
    errors: ["not_found"],
    async handle({ caller, params, body }) {
      requireOwnObject(caller, params.external_id);
      const { account_id, connection_id } = await requireDeclaredPlatform(deps.db, params.external_id);
      const graceSeconds = body?.grace_seconds ?? 0;
      await rotateKey(deps, { accountId: account_id, connectionId: connection_id, graceSeconds });
      return { body: await showState(deps, await requireDeclaredPlatform(deps.db, params.external_id)) };
    },
  });
}

/** `DELETE /internal/v1/platforms/{external_id}`; of what was never registered, nothing is left to remove. */
export function removePlatformRoute(deps: Deps): Route {
  return route({
    id: "internal_remove_platform",
    method: "DELETE",
    path,
    summary: "Remove a declared platform, for ever",
    access: "operator",
    params,
    answer: { status: 200, schema: z.object({ removed: z.literal(true) }), description: "Removed" },
    errors: [],
    async handle({ caller, params }) {
      requireOwnObject(caller, params.external_id);
      const record = await findDeclaredPlatform(deps.db, params.external_id);
      if (record !== undefined) await removeConnection(deps, record.account_id, record.connection_id);
      return { body: { removed: true } };
    },
  });
}

async function showState(deps: Deps, record: LivePlatform): Promise<z.infer<typeof state>> {
  const { platform_id, connection_id, api_key_prefix, default_allowed_scopes, callback_url } = record;
  const credentials = await undeliveredCredentials(deps, record);
  return { platform_id, connection_id, api_key_prefix, default_allowed_scopes, callback_url, credentials };
}

import { z } from "zod";
import { callbackUrl, rotationBody } from "../../input/platform_fields.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import { type Route, route, type SessionCaller } from "../../route.ts";
import type { AddressPolicy } from "../../webhooks/callback_address.ts";
import { type RetireDeps, rotateKey } from "../api_keys/rotate_key.ts";
import { setCallback } from "../change_platform.ts";
import { outsideVerifiers, verifierName } from "../platform_answers.ts";
import { type ConnectionPlace, findConnection } from "../platform_record.ts";
import type { VaultSyncDeps } from "../sync_vault.ts";
import { changeConnection, removeConnection } from "./connection_changes.ts";

type Deps = VaultSyncDeps & RetireDeps & { callbacks: AddressPolicy; actionLimits: ActionLimits };

const params = z.object({ connection_id: idText });

const connectionSettings = z.object({
  verifier_id: verifierName.describe("The name that operations are bound to; at first the connection's id"),
  registry_answers: z
    .boolean()
    .describe("Whether the registry answers AuthZEN questions without a proof; at first not"),
  outside_verifiers: outsideVerifiers,
});

/** `PATCH /v1/service/connections/{connection_id}`: changes a connection's settings. */
export function changeConnectionRoute(deps: Deps): Route {
  return route({
    id: "change_connection",
    method: "PATCH",
    path: "/v1/service/connections/{connection_id}",
    summary: "Change a connection's verifier name, outside verifiers, or answers without a proof",
    access: "session",
    ends: true,
    roles: ["developer"],
    idempotent: true,
    params,
    body: connectionSettings.partial(),
    answer: {
      status: 200,
      schema: connectionSettings.extend({
        connection_id: z.string(),
        outside_verifiers: z.array(z.string()),
      }),
      description: "The connection's settings from now on",
    },
    errors: ["not_found"],
    async handle({ caller, params, body }) {
      const place = { ...placeOf(caller, params.connection_id), by: caller.person.accountId };
      return { body: await changeConnection(deps, place, body) };
    },
  });
}

/** `PUT /v1/service/connections/{connection_id}/callback`: sets or clears the callback URL. */
export function setCallbackRoute(deps: Deps): Route {
  return route({
    id: "set_callback",
    method: "PUT",
    path: "/v1/service/connections/{connection_id}/callback",
    summary: "Set or clear where a connection's events are delivered",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    body: z.object({ callback_url: callbackUrl }),
    answer: {
      status: 200,
      schema: z.object({ connection_id: z.string(), callback_url: z.string().nullable() }),
      description: "The callback URL from now on",
    },
    errors: ["not_found", "invalid_callback_url"],
    async handle({ caller, params, body }) {
      await setCallback(deps, placeOf(caller, params.connection_id), body.callback_url);
      return { body: { connection_id: params.connection_id, callback_url: body.callback_url } };
    },
  });
}

/** A new API key, and the prefix of the key that it replaces. */
export const rotatedKey = z.object({
  api_key: z.string().describe("Shown once"),
  api_key_prefix: z.string(),
  previous_prefix: z.string(),
});

/**
 * Rotates a secret of a connection, within the limit of rotations. Counts per person, so that no member can
 * use up the rotations of another. Throws `action_limited`.
 */
export function withinRotations<R>(
  { actionLimits }: { actionLimits: ActionLimits },
  { connection_id, caller }: { connection_id: string; caller: Pick<SessionCaller, "person"> },
  rotate: () => Promise<R>,
): Promise<R> {
  return actionLimits.within("rotate_secret", [connection_id, caller.person.accountId], rotate);
}

/** A connection that was removed, and when. Null while connections of its platform's customers end. */
export const removedConnection = z.object({ connection_id: z.string(), removed_at: isoTime.nullable() });

/** `POST /v1/service/connections/{connection_id}/rotate-key`: replaces the API key. */
export function rotateKeyRoute(deps: Deps): Route {
  return route({
    id: "rotate_api_key",
    method: "POST",
    path: "/v1/service/connections/{connection_id}/rotate-key",
    summary: "Replace a connection's API key",
    access: "session",
    ends: true,
    roles: ["developer"],
    idempotent: true,
    showsSecret: true,
    params,
    body: rotationBody,
    answer: {
      status: 200,
      schema: rotatedKey,
      description: "The new key; the previous one is valid until the grace is over",
    },
    errors: ["not_found", "action_limited"],
    async handle({ caller, params, body }) {
      const graceSeconds = body?.grace_seconds ?? 0;
      const { connection_id } = await findConnection(deps.db, caller.accountId, params.connection_id);
      const rotate = () => rotateKey(deps, { ...placeOf(caller, connection_id), graceSeconds });
      return { body: await withinRotations(deps, { connection_id, caller }, rotate) };
    },
  });
}

/** `DELETE /v1/service/connections/{connection_id}`: removes a connection and its platform permanently. */
export function removeConnectionRoute(deps: Deps): Route {
  return route({
    id: "remove_connection",
    method: "DELETE",
    path: "/v1/service/connections/{connection_id}",
    summary: "Remove a connection with its platform, keys, agents and certificates, permanently",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    answer: {
      status: 200,
      schema: removedConnection,
      description: "When it was removed; null while connections of its customers end",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const removedAt = await removeConnection(deps, placeOf(caller, params.connection_id));
      return { body: { connection_id: params.connection_id, removed_at: removedAt?.toISOString() ?? null } };
    },
  });
}

function placeOf({ accountId }: { accountId: string }, connectionId: string): ConnectionPlace {
  return { accountId, connectionId };
}

import { z } from "zod";
import { idText, isoTime } from "../input/schemas.ts";
import type { RetireDeps } from "../platforms/api_keys/rotate_key.ts";
import { type Route, route } from "../route.ts";
import {
  MAX_SECRET_GRACE_SECONDS,
  promoteWebhookSecret,
  rotateWebhookSecret,
  SECRET_GRACE_SECONDS,
} from "./webhook_secret.ts";

const path = "/v1/service/connections/{connection_id}/rotate-webhook-secret";
const params = z.object({ connection_id: idText });

/** `POST /v1/service/connections/{connection_id}/rotate-webhook-secret`. */
export function rotateWebhookSecretRoute(deps: RetireDeps): Route {
  return route({
    id: "rotate_webhook_secret",
    method: "POST",
    path,
    summary: "Make a connection's next webhook secret; deliveries carry the signatures of both",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    showsSecret: true,
    params,
    answer: {
      status: 200,
      schema: z.object({
        connection_id: z.string(),
        webhook_signing_secret: z.string().describe("The next one, shown once"),
      }),
      description: "The next secret; promote it when the receiver knows it",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const own = { accountId: caller.accountId, connectionId: params.connection_id };
      const secret = await rotateWebhookSecret(deps, own);
      return { body: { connection_id: params.connection_id, webhook_signing_secret: secret } };
    },
  });
}

const promotion = z
  .object({
    grace_seconds: z.number().int().min(0).max(MAX_SECRET_GRACE_SECONDS).default(SECRET_GRACE_SECONDS),
  })
  .optional();

/** `POST /v1/service/connections/{connection_id}/rotate-webhook-secret/promote`. */
export function promoteWebhookSecretRoute(deps: RetireDeps): Route {
  return route({
    id: "promote_webhook_secret",
    method: "POST",
    path: `${path}/promote`,
    summary: "Make a connection's next webhook secret its current one",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    body: promotion,
    answer: {
      status: 200,
      schema: z.object({
        connection_id: z.string(),
        former_expires_at: isoTime.nullable().describe("Until when the former secret signs besides"),
        api_key_prefix: z
          .string()
          .describe(
            "A new key's where the operator keeps the platform's Secret, for it is written as a whole",
          ),
      }),
      description: "The next secret is the current one",
    },
    errors: ["not_found", "no_secret_rotation"],
    async handle({ caller, params, body }) {
      const own = { accountId: caller.accountId, connectionId: params.connection_id };
      const graceSeconds = body?.grace_seconds ?? SECRET_GRACE_SECONDS;
      const { formerUntil, keyPrefix } = await promoteWebhookSecret(deps, own, graceSeconds);
      return {
        body: {
          connection_id: params.connection_id,
          former_expires_at: formerUntil === null ? null : formerUntil.toISOString(),
          api_key_prefix: keyPrefix,
        },
      };
    },
  });
}

import { z } from "zod";
import { addSeconds } from "../clock.ts";
import type { Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import {
  createWebhookSecret,
  webhookFormerSecretContext,
  webhookNextSecretContext,
  webhookSecretContext,
} from "../events/secrets.ts";
import { MAX_GRACE_SECONDS } from "../input/platform_fields.ts";
import { idText, isoTime } from "../input/schemas.ts";
import { type RetireDeps, replaceKey } from "../platforms/api_keys/rotate_key.ts";
import { findConnection, lockConnection } from "../platforms/platform_record.ts";
import type { ActionLimits } from "../rates/action_limits.ts";
import { type Route, route } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";
import type { OwnConnection } from "./sending_limits.ts";

const MAX_SECRET_GRACE_SECONDS = 7 * 24 * 60 * 60;
/** The default grace period, in seconds: 24 hours. */
export const SECRET_GRACE_SECONDS = 24 * 60 * 60;

const path = "/v1/service/connections/{connection_id}/rotate-webhook-secret";
const params = z.object({ connection_id: idText });

/** `POST /v1/service/connections/{connection_id}/rotate-webhook-secret`. */
export function rotateWebhookSecretRoute(deps: RetireDeps & { actionLimits: ActionLimits }): Route {
  return route({
    id: "rotate_webhook_secret",
    method: "POST",
    path,
    summary: "Create a connection's next webhook secret; deliveries carry the signatures of both",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    showsSecret: true,
    params,
    answer: {
      status: 200,
      schema: z.object({
        connection_id: z.string(),
        webhook_signing_secret: z.string().describe("The next secret, shown only once"),
      }),
      description: "The next secret. Promote it when the receiver accepts it",
    },
    errors: ["not_found", "action_limited"],
    async handle({ caller, params }) {
      const { connection_id } = await findConnection(deps.db, caller.accountId, params.connection_id);
      const own = { accountId: caller.accountId, connectionId: connection_id };
      const secret = await deps.actionLimits.within(
        "rotate_secret",
        [connection_id, caller.person.accountId],
        () => rotateWebhookSecret(deps, own),
      );
      return { body: { connection_id: params.connection_id, webhook_signing_secret: secret } };
    },
  });
}

/** Body that sets how long a replaced secret remains valid. The body may be absent. */
export const secretGrace = z
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
    ends: true,
    roles: ["developer"],
    idempotent: true,
    params,
    body: secretGrace,
    answer: {
      status: 200,
      schema: z.object({
        connection_id: z.string(),
        former_expires_at: isoTime
          .nullable()
          .describe("Until when deliveries are also signed with the former secret"),
        api_key_prefix: z
          .string()
          .describe(
            "The prefix of the connection's API key. It is a new key if the operator keeps the platform's Secret, which is always written as a whole",
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

/**
 * Begins a rotation: returns the connection's next webhook secret, which the API never returns again. From
 * now on, `webhook-signature` contains signatures with the current and the next secret. `X-Service-Signature`
 * uses only the current secret. Replaces a next secret that was not promoted. Throws `not_found`.
 */
export async function rotateWebhookSecret(
  { db, secretBox, clock }: RetireDeps,
  { accountId, connectionId }: OwnConnection,
): Promise<string> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  return db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    await findConnection(tx, accountId, connection_id);
    const secret = createWebhookSecret();
    await tx("connections")
      .where({ connection_id })
      .update({
        webhook_next_secret_sealed: secretBox.box(secret, webhookNextSecretContext(connection_id)),
        webhook_next_secret_at: clock.now(),
      });
    return secret;
  });
}

/** `formerUntil` is when the former secret stops signing. `keyPrefix` is the prefix of the API key. */
type Promoted = { formerUntil: Date | null; keyPrefix: string };

/**
 * Completes a rotation: makes the next secret the current one. The previous secret signs for `graceSeconds`
 * more (0–604800), in `webhook-signature` only. Throws `not_found`, `no_secret_rotation`.
 *
 * If a Kubernetes object declares the platform, also replaces the API key, because the operator updates a
 * Secret only with a new key. The former key stays valid for the longest grace period.
 */
export async function promoteWebhookSecret(
  deps: RetireDeps,
  { accountId, connectionId }: OwnConnection,
  graceSeconds: number,
): Promise<Promoted> {
  const { connection_id } = await findConnection(deps.db, accountId, connectionId);
  const { retired, ...promoted } = await deps.db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const record = await findConnection(tx, accountId, connection_id);
    const now = deps.clock.now();
    const formerUntil = graceSeconds === 0 ? null : addSeconds(now, graceSeconds);
    await exchangeSecrets(tx, deps.secretBox, connection_id, formerUntil);
    if (record.external_id === null) {
      return { formerUntil, keyPrefix: record.api_key_prefix, retired: [] };
    }
    const { rotated, retired } = await replaceKey(tx, deps.secretBox, record, {
      graceSeconds: MAX_GRACE_SECONDS,
      now,
    });
    return { formerUntil, keyPrefix: rotated.api_key_prefix, retired };
  });
  deps.apiKeys.forget(retired);
  return promoted;
}

/** Encrypts both secrets again, because each ciphertext is bound to its column. */
async function exchangeSecrets(
  tx: Transaction,
  secretBox: SecretBox,
  connectionId: string,
  formerUntil: Date | null,
): Promise<void> {
  const row = await tx("connections")
    .where({ connection_id: connectionId })
    .first("webhook_secret_sealed", "webhook_next_secret_sealed");
  const { webhook_secret_sealed: current = null, webhook_next_secret_sealed: coming = null } = row ?? {};
  if (current === null || coming === null) throw new ApiError("no_secret_rotation");
  const next = secretBox.unbox(coming, webhookNextSecretContext(connectionId));
  const former = secretBox.unbox(current, webhookSecretContext(connectionId));
  await tx("connections")
    .where({ connection_id: connectionId })
    .update({
      webhook_secret_sealed: secretBox.box(next, webhookSecretContext(connectionId)),
      webhook_next_secret_sealed: null,
      webhook_next_secret_at: null,
      webhook_former_secret_sealed:
        formerUntil === null ? null : secretBox.box(former, webhookFormerSecretContext(connectionId)),
      webhook_former_until: formerUntil,
    });
}

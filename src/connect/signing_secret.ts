import { hash, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { PlatformRow } from "../db/tables.ts";
import { SECRET_GRACE_SECONDS, secretGrace } from "../deliveries/webhook_secret_rotation.ts";
import { newSigningSecret, signingFormerContext, signingSecretContext } from "../events/secrets.ts";
import { isUuid } from "../ids.ts";
import { MAX_GRACE_SECONDS } from "../input/platform_fields.ts";
import { idText, isoTime } from "../input/schemas.ts";
import { type RetireDeps, replaceKey } from "../platforms/api_keys/rotate_key.ts";
import { findPlatform, lockConnection, type PlatformPlace } from "../platforms/platform_record.ts";
import type { ActionLimits } from "../rates/action_limits.ts";
import { type Route, route } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";

/** `POST /v1/service/platforms/{platform_id}/rotate-signing-secret`. */
export function rotateSigningSecretRoute(deps: RetireDeps & { actionLimits: ActionLimits }): Route {
  return route({
    id: "rotate_signing_secret",
    method: "POST",
    path: "/v1/service/platforms/{platform_id}/rotate-signing-secret",
    summary: "Replace a platform's signing secret",
    access: "session",
    ends: true,
    roles: ["developer"],
    idempotent: true,
    showsSecret: true,
    params: z.object({ platform_id: idText }),
    body: secretGrace,
    answer: {
      status: 200,
      schema: z.object({
        platform_id: z.string(),
        signing_secret: z.string(),
        former_expires_at: isoTime.nullable(),
        api_key_prefix: z.string(),
      }),
      description: "The new secret",
    },
    errors: ["not_found", "action_limited"],
    async handle({ caller, params, body }) {
      const { platform_id } = await findPlatform(deps.db, caller.accountId, params.platform_id);
      const place = { accountId: caller.accountId, platformId: platform_id };
      const key = [platform_id, caller.person.accountId];
      const rotated = await deps.actionLimits.within("rotate_secret", key, () =>
        rotateSigningSecret(deps, place, body?.grace_seconds ?? SECRET_GRACE_SECONDS),
      );
      return { body: { platform_id, ...rotated } };
    },
  });
}

type Rotated = { signing_secret: string; former_expires_at: string | null; api_key_prefix: string };

/**
 * Replaces a platform's signing secret. The token endpoint accepts the former one for `graceSeconds` more
 * (0–604800). Only one former secret is accepted, so a second rotation ends the first one's. Throws
 * `not_found`.
 *
 * If a Kubernetes object declares the platform, also replaces the API key, because the operator updates a
 * Secret only with a new key. The former key stays valid for the longest grace period.
 */
async function rotateSigningSecret(
  deps: RetireDeps,
  { accountId, platformId }: PlatformPlace,
  graceSeconds: number,
): Promise<Rotated> {
  const { db, secretBox, clock } = deps;
  const { connection_id } = await findPlatform(db, accountId, platformId);
  const { retired, ...rotated } = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const record = await findPlatform(tx, accountId, platformId);
    const now = clock.now();
    const until = graceSeconds === 0 ? null : addSeconds(now, graceSeconds);
    const row = await tx("platforms").where({ platform_id: platformId }).first("signing_secret_sealed");
    if (row === undefined) throw new Error("The platform has no row");
    const former = secretBox.unbox(row.signing_secret_sealed, signingSecretContext(platformId));
    const secret = newSigningSecret();
    await tx("platforms")
      .where({ platform_id: platformId })
      .update({
        signing_secret_sealed: secretBox.box(secret, signingSecretContext(platformId)),
        signing_former_sealed:
          until === null ? null : secretBox.box(former, signingFormerContext(platformId)),
        signing_former_until: until,
      });
    const answer = { signing_secret: secret, former_expires_at: until?.toISOString() ?? null };
    if (record.external_id === null) return { ...answer, api_key_prefix: record.api_key_prefix, retired: [] };
    const key = await replaceKey(tx, secretBox, record, { graceSeconds: MAX_GRACE_SECONDS, now });
    return { ...answer, api_key_prefix: key.rotated.api_key_prefix, retired: key.retired };
  });
  deps.apiKeys.forget(retired);
  return rotated;
}

type ClientRow = Pick<
  PlatformRow,
  "platform_id" | "signing_secret_sealed" | "signing_former_sealed" | "signing_former_until"
>;

/**
 * Returns whether `secret` is the signing secret of the live platform `platformId`, or its former one within
 * the grace period. Compares in constant time. No number of wrong secrets makes it refuse the right one.
 */
export async function isClientSecret(
  { db, secretBox, clock }: { db: Database; secretBox: SecretBox; clock: Clock },
  platformId: string,
  secret: string,
): Promise<boolean> {
  if (!isUuid(platformId)) return false;
  const row = await db("platforms")
    .where({ platform_id: platformId })
    .whereNull("removed_at")
    .first("platform_id", "signing_secret_sealed", "signing_former_sealed", "signing_former_until");
  if (row === undefined) return false;
  return secretsOf(secretBox, row, clock.now())
    .map((known) => timingSafeEqual(digestOf(known), digestOf(secret)))
    .includes(true);
}

function secretsOf(secretBox: SecretBox, row: ClientRow, now: Date): string[] {
  const { platform_id, signing_former_sealed: former, signing_former_until: until } = row;
  const current = secretBox.unbox(row.signing_secret_sealed, signingSecretContext(platform_id));
  const isInGrace = former !== null && until !== null && now < until;
  return isInGrace ? [current, secretBox.unbox(former, signingFormerContext(platform_id))] : [current];
}

function digestOf(text: string): Buffer {
  return hash("sha256", text, "buffer");
}

import { randomBytes } from "node:crypto";

const SECRET_BYTES = 32;

/**
 * A new webhook signing secret: `whsec_` and the base64 of 32 random bytes, as Standard Webhooks libraries
 * take it.
 */
export function createWebhookSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
}

/** A new platform signing secret: `dps_` and 32 random bytes in base64url. */
export function newSigningSecret(): string {
  return `dps_${randomBytes(SECRET_BYTES).toString("base64url")}`;
}

/** The box's context of `platforms.signing_secret_sealed`. */
export function signingSecretContext(platformId: string): string {
  return `platforms.signing_secret:${platformId}`;
}

/** The box's context of `connections.webhook_secret_sealed`. */
export function webhookSecretContext(connectionId: string): string {
  return `connections.webhook_secret:${connectionId}`;
}

/** The box's context of `connections.webhook_next_secret_sealed`. */
export function webhookNextSecretContext(connectionId: string): string {
  return `connections.webhook_next_secret:${connectionId}`;
}

/** The box's context of `connections.webhook_former_secret_sealed`. */
export function webhookFormerSecretContext(connectionId: string): string {
  return `connections.webhook_former_secret:${connectionId}`;
}

/** The box's context of `event_secrets.sealed`: the JSON object of an event's secrets. */
export function eventSecretsContext(eventId: string): string {
  return `event_secrets:${eventId}`;
}

/** The box's context of `webhook_deliveries.body_sealed`: a body that carries secrets. */
export function deliveryBodyContext(deliveryId: string): string {
  return `webhook_deliveries.body:${deliveryId}`;
}

import { randomBytes } from "node:crypto";

const SECRET_BYTES = 32;

/** Creates a webhook signing secret: `whsec_` and 32 random bytes in base64 (Standard Webhooks). */
export function createWebhookSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
}

/** Creates a platform signing secret: `dps_` and 32 random bytes in base64url. */
export function newSigningSecret(): string {
  return `dps_${randomBytes(SECRET_BYTES).toString("base64url")}`;
}

/** Returns the encryption context that binds `platforms.signing_secret_sealed` to its row. */
export function signingSecretContext(platformId: string): string {
  return `platforms.signing_secret:${platformId}`;
}

/** Returns the encryption context that binds `platforms.signing_former_sealed` to its row. */
export function signingFormerContext(platformId: string): string {
  return `platforms.signing_former:${platformId}`;
}

/** Returns the encryption context that binds `connections.webhook_secret_sealed` to its row. */
export function webhookSecretContext(connectionId: string): string {
  return `connections.webhook_secret:${connectionId}`;
}

/** Returns the encryption context that binds `connections.webhook_next_secret_sealed` to its row. */
export function webhookNextSecretContext(connectionId: string): string {
  return `connections.webhook_next_secret:${connectionId}`;
}

/** Returns the encryption context that binds `connections.webhook_former_secret_sealed` to its row. */
export function webhookFormerSecretContext(connectionId: string): string {
  return `connections.webhook_former_secret:${connectionId}`;
}

/** Returns the encryption context that binds `event_secrets.sealed`, a JSON object of secrets, to its row. */
export function eventSecretsContext(eventId: string): string {
  return `event_secrets:${eventId}`;
}

/** Returns the encryption context that binds `webhook_deliveries.body_sealed` to its row. */
export function deliveryBodyContext(deliveryId: string): string {
  return `webhook_deliveries.body:${deliveryId}`;
}

import { createHmac, timingSafeEqual } from "node:crypto";

/** A webhook request as it came in. Header names are lower case, as Node gives them. */
export type WebhookRequest = {
  headers: Record<string, string | string[] | undefined>;
  /** The body's bytes as received, before any parsing. */
  rawBody: Uint8Array | string;
  /** The connection's `webhook_signing_secret`, as text. */
  secret: string;
  /** The current time in Unix seconds. */
  now: number;
  /** The service's word in its header names. Default `service`. */
  word?: string;
};

/**
 * A genuine delivery and its id, or why it must be answered with 401. `stale_timestamp` is told only of deliveries
 * whose signature is right.
 */
export type WebhookCheck =
  | { ok: true; deliveryId: string }
  | { ok: false; reason: "bad_signature" | "stale_timestamp" };

const TOLERANCE_SECONDS = 300;

/**
 * Checks a webhook by the receiver rules (specification §6): accepted only when `X-Service-Signature` is the lowercase
 * hex HMAC-SHA256 of `timestamp.raw_body` under the secret, compared in constant time, and the timestamp is less than
 * 5 minutes away. Store the event, ignore a `deliveryId` that was stored before, then answer 204. Never throws.
 */
export function verifyWebhook({
  headers,
  rawBody,
  secret,
  now,
  word = "service",
}: WebhookRequest): WebhookCheck {
  const signature = headers[`x-${word}-signature`];
  const timestamp = headers[`x-${word}-timestamp`];
  const deliveryId = headers[`x-${word}-delivery-id`];
  if (typeof signature !== "string" || typeof timestamp !== "string" || typeof deliveryId !== "string") {
    return { ok: false, reason: "bad_signature" };
  }
  const expected = createHmac("sha256", secret).update(`${timestamp}.`).update(rawBody).digest("hex");
  if (!/^\d{1,15}$/.test(timestamp) || !equal(expected, signature)) {
    return { ok: false, reason: "bad_signature" };
  }
  if (Math.abs(now - Number(timestamp)) >= TOLERANCE_SECONDS) return { ok: false, reason: "stale_timestamp" };
  return { ok: true, deliveryId };
}

function equal(expected: string, given: string): boolean {
  const [one, other] = [Buffer.from(expected), Buffer.from(given)];
  return one.length === other.length && timingSafeEqual(one, other);
}

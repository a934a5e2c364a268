import { createHmac, timingSafeEqual } from "node:crypto";
import { type Clock, systemClock } from "./clock.ts";
import { demand, demandKnown, type Known } from "./settings.ts";

/** A webhook request as it arrived. Header names are in lower case, as in Node. */
export type WebhookRequest = {
  headers: Record<string, string | string[] | undefined>;
  /** The bytes of the body as received, before any parsing. */
  rawBody: Uint8Array | string;
  /** The connection's `webhook_signing_secret`, unchanged as a string. */
  secret: string;
  /** The current time in Unix seconds. */
  now: number;
  /** The service name, which replaces `service` in header names. Defaults to `service`. */
  word?: string;
};

/**
 * The id of a genuine delivery, or the reason to respond with 401. Only deliveries with a valid signature are
 * reported as `stale_timestamp`.
 */
export type WebhookCheck =
  | { ok: true; deliveryId: string }
  | { ok: false; reason: "bad_signature" | "stale_timestamp" };

const TOLERANCE_SECONDS = 300;

/**
 * Checks a webhook by the receiver rules (specification §6). `X-Service-Signature` must be the lowercase hex
 * HMAC-SHA256 of `timestamp.raw_body` under the secret, compared in constant time. The timestamp must be less
 * than 5 minutes from `now`. No signature covers the header with the delivery's id. So if the body contains
 * `delivery_id`, the header must be equal. After success, store the event once by its `deliveryId`, and
 * respond with 204. Never throws.
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
  // Anybody could sign with an empty secret, such as an environment variable that is not set.
  if (secret === "" || !/^\d{1,15}$/.test(timestamp) || !equal(expected, signature)) {
    return { ok: false, reason: "bad_signature" };
  }
  const signedId = readObject(rawBody)?.delivery_id;
  if (signedId !== undefined && signedId !== deliveryId) return { ok: false, reason: "bad_signature" };
  if (Math.abs(now - Number(timestamp)) >= TOLERANCE_SECONDS) return { ok: false, reason: "stale_timestamp" };
  return { ok: true, deliveryId };
}

/** A genuine event: its type, its whole body, and the id that identifies repeated deliveries. */
export type WebhookEvent = { deliveryId: string; event: string; body: Readonly<Record<string, unknown>> };

/** Settings of a webhook receiver. */
export type WebhookReceiverSettings = {
  /** The connection's `webhook_signing_secret`, or several secrets during a rotation. */
  secret: string | readonly string[];
  /**
   * Stores or queues an event once. It must ignore a `deliveryId` that it has already stored. If it throws,
   * the service sends the delivery again.
   */
  storeOnce: (event: WebhookEvent) => unknown;
  /** The service name, which replaces `service` in header names. Defaults to `service`. */
  word?: string;
  clock?: Clock;
};

const KNOWN: Known<WebhookReceiverSettings> = { secret: true, storeOnce: true, word: true, clock: true };

/** The status with which to respond to a delivery. The response needs no body. */
export type WebhookStatus = 204 | 400 | 401 | 503;

/**
 * Creates a function that receives deliveries by the receiver rules (specification §6). It checks the
 * signature before it parses the body, and never throws. The function returns:
 * - 204 if the event is stored, now or earlier
 * - 400 for genuine bytes that are not an event, which the service does not send again
 * - 401 only for an invalid signature or a stale timestamp
 * - 503 if the event could not be stored
 *
 * Throws TypeError for an unknown setting, without a secret, or for an empty one.
 */
export function createWebhookReceiver(
  settings: WebhookReceiverSettings,
): (delivery: Pick<WebhookRequest, "headers" | "rawBody">) => Promise<WebhookStatus> {
  demandKnown("settings", settings, KNOWN);
  const { secret, storeOnce, word = "service", clock = systemClock } = settings;
  const secrets: readonly unknown[] = Array.isArray(secret) ? [...secret] : [secret];
  demand(secrets.every(isText), "secret: must be text or a list of texts");
  demand(secrets.length > 0 && !secrets.includes(""), "secret: must not be empty");
  demand(typeof storeOnce === "function", "storeOnce: must be a function");
  return async ({ headers, rawBody }) => {
    const now = clock.now().getTime() / 1000;
    const checks = secrets.map((each) => verifyWebhook({ headers, rawBody, secret: each, now, word }));
    const genuine = checks.find((check) => check.ok);
    if (genuine === undefined) return 401;
    const body = readEvent(rawBody);
    if (body === undefined) return 400;
    try {
      await storeOnce({ deliveryId: genuine.deliveryId, event: body.event, body });
      return 204;
    } catch {
      return 503;
    }
  };
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function readEvent(rawBody: Uint8Array | string): { event: string } | undefined {
  const body = readObject(rawBody);
  return typeof body?.event === "string" ? { ...body, event: body.event } : undefined;
}

function readObject(rawBody: Uint8Array | string): Record<string, unknown> | undefined {
  try {
    const text = typeof rawBody === "string" ? rawBody : Buffer.from(rawBody).toString("utf8");
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null ? { ...body } : undefined;
  } catch {
    return undefined;
  }
}

function equal(expected: string, actual: string): boolean {
  const [left, right] = [Buffer.from(expected), Buffer.from(actual)];
  return left.length === right.length && timingSafeEqual(left, right);
}

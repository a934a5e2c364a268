import { createHmac, timingSafeEqual } from "node:crypto";
import { type Clock, systemClock } from "./clock.ts";

/** A webhook request as it arrived. Header names are lower case, as Node gives them. */
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
 * A genuine delivery and its id, or why it must be answered with 401. `stale_timestamp` is reported only for
 * deliveries whose signature is right.
 */
export type WebhookCheck =
  | { ok: true; deliveryId: string }
  | { ok: false; reason: "bad_signature" | "stale_timestamp" };

const TOLERANCE_SECONDS = 300;

/**
 * Checks a webhook by the receiver rules (specification §6): accepted only when `X-Service-Signature` is the
 * lowercase hex HMAC-SHA256 of `timestamp.raw_body` under the secret, compared in constant time, and the
 * timestamp is less than 5 minutes away. Store the event, ignore a `deliveryId` that was stored before, then
 * answer 204. Never throws.
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

/** A genuine event: its kind, the whole of its body, and the id to know it again by. */
export type WebhookEvent = { deliveryId: string; event: string; body: Readonly<Record<string, unknown>> };

/** What a receiver is made with. */
export type WebhookReceiverSettings = {
  /** The connection's `webhook_signing_secret`; several while one takes the place of another. */
  secret: string | readonly string[];
  /**
   * Stores or queues an event, once: it takes no notice of a `deliveryId` that it has stored before. When it
   * throws, the delivery is sent again.
   */
  storeOnce: (event: WebhookEvent) => unknown;
  /** The service's word in its header names. Default `service`. */
  word?: string;
  clock?: Clock;
};

/** The status to answer a delivery with; nothing belongs in the body. */
export type WebhookStatus = 204 | 400 | 401 | 503;

/**
 * Receives deliveries by the receiver rules (specification §6). 401 only for a bad signature or a stale
 * timestamp, checked before the body is parsed; 400 for genuine bytes that are not an event, which are not
 * sent again; 503 when the event could not be stored; 204 once it is stored, or had been before. Never
 * throws.
 */
export function createWebhookReceiver(
  settings: WebhookReceiverSettings,
): (delivery: Pick<WebhookRequest, "headers" | "rawBody">) => Promise<WebhookStatus> {
  const { secret, storeOnce, word = "service", clock = systemClock } = settings;
  const secrets = typeof secret === "string" ? [secret] : [...secret];
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

function readEvent(rawBody: Uint8Array | string): { event: string } | undefined {
  try {
    const text = typeof rawBody === "string" ? rawBody : Buffer.from(rawBody).toString("utf8");
    const body: unknown = JSON.parse(text);
    const isEvent =
      typeof body === "object" && body !== null && "event" in body && typeof body.event === "string";
    return isEvent ? (body as { event: string }) : undefined;
  } catch {
    return undefined;
  }
}

function equal(expected: string, given: string): boolean {
  const [one, other] = [Buffer.from(expected), Buffer.from(given)];
  return one.length === other.length && timingSafeEqual(one, other);
}

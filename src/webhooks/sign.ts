import { createHmac } from "node:crypto";
import { unixSeconds } from "../clock.ts";

/** What is signed: the frozen body of one delivery. */
export type Signable = { deliveryId: string; body: string };

const PREFIX = "whsec_";

/**
 * The headers of a delivery: those of the specification (§6), and besides them those of Standard Webhooks, so
 * that its libraries verify it too. `word` is the service's word. Both signatures are made with the webhook
 * signing secret at the time of the attempt: the former keyed with the secret's text, the latter with the
 * bytes it encodes. While a secret is replaced there are `others`, whose signatures are in
 * `webhook-signature` too.
 */
export function signedHeaders(
  { deliveryId, body }: Signable,
  secret: string,
  now: Date,
  word: string,
  others: readonly string[] = [],
): Record<string, string> {
  const timestamp = String(unixSeconds(now));
  const name = `X-${word.charAt(0).toUpperCase()}${word.slice(1)}`;
  const signature = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
  const standard = [secret, ...others].map((each) =>
    createHmac("sha256", keyBytes(each)).update(`${deliveryId}.${timestamp}.${body}`).digest("base64"),
  );
  return {
    "Content-Type": "application/json",
    "User-Agent": "Deputize-Webhooks/1",
    [`${name}-Signature`]: signature,
    [`${name}-Timestamp`]: timestamp,
    [`${name}-Delivery-ID`]: deliveryId,
    "webhook-id": deliveryId,
    "webhook-timestamp": timestamp,
    "webhook-signature": standard.map((each) => `v1,${each}`).join(" "),
  };
}

function keyBytes(secret: string): Buffer {
  return secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), "base64") : Buffer.from(secret);
}

import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { createWebhookSecret } from "../../src/events/secrets.ts";
import { signedHeaders } from "../../src/webhooks/sign_and_send.ts";

const delivery = { deliveryId: "7d0e1f3c-0000-5000-8000-000000000001", body: '{"event":"x","name":"Zoë"}' };

test("has the headers of the specification, signed over timestamp and raw body", () => {
  const now = new Date("2026-03-01T12:00:00.999Z");
  const headers = signedHeaders(delivery, "whsec_c2VjcmV0", now, "service");
  const expected = createHmac("sha256", Buffer.from("whsec_c2VjcmV0"))
    .update(Buffer.from(`1772366400.${delivery.body}`))
    .digest("hex");
  expect(headers).toMatchObject({
    "Content-Type": "application/json",
    "X-Service-Signature": expected,
    "X-Service-Timestamp": "1772366400",
    "X-Service-Delivery-ID": delivery.deliveryId,
  });
  expect(expected).toMatch(/^[0-9a-f]{64}$/);
});

test("the header names follow the service's word", () => {
  const names = Object.keys(signedHeaders(delivery, "whsec_c2VjcmV0", new Date(), "acme"));
  expect(names.filter((name) => name.startsWith("X-"))).toEqual([
    "X-Acme-Signature",
    "X-Acme-Timestamp",
    "X-Acme-Delivery-ID",
  ]);
});

test("Standard Webhooks libraries verify it, and refuse another body", () => {
  const secret = createWebhookSecret();
  const headers = signedHeaders(delivery, secret, new Date(), "service");
  const library = new Webhook(secret);
  expect(library.verify(delivery.body, headers)).toEqual(JSON.parse(delivery.body));
  expect(() => library.verify(`${delivery.body} `, headers)).toThrow();
  expect(() => new Webhook(createWebhookSecret()).verify(delivery.body, headers)).toThrow();
});

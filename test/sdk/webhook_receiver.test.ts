import { createHmac } from "node:crypto";
import { expect, test, vi } from "vitest";
import { createWebhookReceiver, type WebhookEvent } from "../../src/sdk/webhook.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const now = 1_772_366_400;
const clock = { now: () => new Date(now * 1000) };
const text = '{"event":"delegation.revoked","reason":"Zoë left"}';

function delivery(rawBody: string, { key = secret, at = now, word = "service" } = {}) {
  const signature = createHmac("sha256", key).update(`${at}.${rawBody}`).digest("hex");
  return {
    rawBody: Buffer.from(rawBody),
    headers: {
      [`x-${word}-signature`]: signature,
      [`x-${word}-timestamp`]: String(at),
      [`x-${word}-delivery-id`]: "d-1",
    },
  };
}

test("a webhook receiver returns 204 when the event is stored, and not before", async () => {
  const stored: WebhookEvent[] = [];
  const storeOnce = async (event: WebhookEvent) => {
    await new Promise((resolve) => setImmediate(resolve));
    stored.push(event);
  };
  expect(await createWebhookReceiver({ secret, clock, storeOnce })(delivery(text))).toBe(204);
  expect(stored).toEqual([{ deliveryId: "d-1", event: "delegation.revoked", body: JSON.parse(text) }]);
});

test.each([
  ["a different secret", delivery(text, { key: "whsec_other" })],
  ["a timestamp of 5 minutes ago", delivery(text, { at: now - 300 })],
  ["a timestamp 5 minutes ahead", delivery(text, { at: now + 300 })],
  ["headers with a different service name", delivery(text, { word: "other" })],
  ["a bad signature over a text that is not JSON", delivery("{", { key: "whsec_other" })],
])("a webhook receiver returns 401 for %s, and does not parse the body", async (_name, given) => {
  const storeOnce = vi.fn();
  expect(await createWebhookReceiver({ secret, clock, storeOnce })(given)).toBe(401);
  expect(storeOnce).not.toHaveBeenCalled();
});

test.each([-299, 299])("a webhook receiver accepts a timestamp %i s from now", async (offset) => {
  const receive = createWebhookReceiver({ secret, clock, storeOnce: () => undefined });
  expect(await receive(delivery(text, { at: now + offset }))).toBe(204);
});

test("a webhook receiver accepts both secrets during a rotation, and only headers with its configured service name", async () => {
  const receive = createWebhookReceiver({
    secret: ["whsec_new", secret],
    clock,
    word: "ratify",
    storeOnce: () => undefined,
  });
  expect(await receive(delivery(text, { word: "ratify" }))).toBe(204);
  expect(await receive(delivery(text, { word: "ratify", key: "whsec_new" }))).toBe(204);
  expect(await receive(delivery(text, { word: "ratify", key: "whsec_old" }))).toBe(401);
});

test.each(["", "{", "null", '"event"', "[]", "{}", '{"event":5}'])(
  "a webhook receiver returns 400 for a genuine body that is not an event: %j",
  async (body) => {
    const storeOnce = vi.fn();
    expect(await createWebhookReceiver({ secret, clock, storeOnce })(delivery(body))).toBe(400);
    expect(storeOnce).not.toHaveBeenCalled();
  },
);

test.each([
  [
    "throws",
    () => {
      throw new Error("disk full");
    },
  ],
  ["rejects", () => Promise.reject(new Error("disk full"))],
])(
  "a webhook receiver returns 503 if storing %s, so that the service sends the delivery again",
  async (_name, storeOnce) => {
    expect(await createWebhookReceiver({ secret, clock, storeOnce })(delivery(text))).toBe(503);
  },
);

test.each([
  ["settings: unknown member secrets", { secret, secrets: [secret] }],
  ["secret: must be text", { secret: undefined }],
  ["storeOnce: must be a function", { secret, storeOnce: "db" }],
])("refuses settings with the TypeError %s", (message, settings) => {
  const given = { storeOnce: () => undefined, ...settings };
  expect(() => createWebhookReceiver(given as never)).toThrow(message);
});

test.each(["", [], [secret, ""]].map((each) => [each]))("refuses settings with the secret %j", (empty) => {
  expect(() => createWebhookReceiver({ secret: empty, storeOnce: () => undefined })).toThrow(
    new TypeError("secret: must not be empty"),
  );
});

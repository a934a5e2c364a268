import { createHmac } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { verifyWebhook } from "../../src/sdk/webhook.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const rawBody = Buffer.from('{"event":"delegation.revoked","reason":"Zoë left"}');
const timestamp = 1_772_366_400;
const deliveryId = "7d0e1f3c-0000-5000-8000-000000000001";
const sign = (text: string | Buffer, key = secret) => createHmac("sha256", key).update(text).digest("hex");
const headers = {
  "x-service-signature": sign(Buffer.concat([Buffer.from(`${timestamp}.`), rawBody])),
  "x-service-timestamp": String(timestamp),
  "x-service-delivery-id": deliveryId,
};
const request = { headers, rawBody, secret, now: timestamp };
const bad = { ok: false, reason: "bad_signature" };

test("verifyWebhook accepts a genuine delivery and returns its id", () => {
  expect(verifyWebhook(request)).toEqual({ ok: true, deliveryId });
  expect(verifyWebhook({ ...request, rawBody: rawBody.toString() })).toEqual({ ok: true, deliveryId });
});

test("verifyWebhook accepts a signature from an independent implementation (OpenSSL)", () => {
  const example = {
    "x-service-signature": "ca458d767c4041a70394d25abfdb6d6bc3777d2044b7dcf28fcc31911996fde4",
    "x-service-timestamp": "1700000000",
    "x-service-delivery-id": deliveryId,
  };
  const given = { headers: example, rawBody: '{"event":"x"}', secret: "secret", now: 1_700_000_000 };
  expect(verifyWebhook(given)).toEqual({ ok: true, deliveryId });
});

test("verifyWebhook rejects a delivery whose header has another id than the signed body", () => {
  const given = (id: unknown) => {
    const body = JSON.stringify({ event: "delegation.revoked", delivery_id: id });
    const signed = { ...headers, "x-service-signature": sign(`${timestamp}.${body}`) };
    return verifyWebhook({ ...request, headers: signed, rawBody: body });
  };
  expect(given(deliveryId)).toEqual({ ok: true, deliveryId });
  for (const other of ["7d0e1f3c-0000-5000-8000-000000000002", "", null, 1]) {
    expect(given(other)).toEqual(bad);
  }
});

describe("verifyWebhook's timestamp check", () => {
  test.each([-299, 299])("accepts a difference of %i s", (offset) => {
    expect(verifyWebhook({ ...request, now: timestamp + offset })).toEqual({ ok: true, deliveryId });
  });

  test.each([-300, 300, 86_400])("rejects a difference of %i s", (offset) => {
    expect(verifyWebhook({ ...request, now: timestamp + offset })).toEqual({
      ok: false,
      reason: "stale_timestamp",
    });
  });

  test.each(["", "abc", "1e9", "-5", "1772366400.5", " 1772366400", "Infinity", "9".repeat(16)])(
    "rejects the timestamp %j, even if it is signed",
    (text) => {
      const signed = {
        ...headers,
        "x-service-timestamp": text,
        "x-service-signature": sign(`${text}.${rawBody}`),
      };
      expect(verifyWebhook({ ...request, headers: signed })).toEqual(bad);
    },
  );
});

describe("verifyWebhook rejects", () => {
  test("any change of one byte of the body", () => {
    fc.assert(
      fc.property(fc.nat(rawBody.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const changed = Buffer.from(rawBody);
        changed.writeUInt8(changed.readUInt8(at) ^ flip, at);
        expect(verifyWebhook({ ...request, rawBody: changed })).toEqual(bad);
      }),
    );
  });

  test.each([
    ["a different timestamp", { "x-service-timestamp": String(timestamp + 1) }],
    ["an upper-case signature", { "x-service-signature": headers["x-service-signature"].toUpperCase() }],
    ["a shortened signature", { "x-service-signature": headers["x-service-signature"].slice(1) }],
    ["a lengthened signature", { "x-service-signature": `${headers["x-service-signature"]}0` }],
    ["an empty signature", { "x-service-signature": "" }],
    ["no signature", { "x-service-signature": undefined }],
    ["two signatures", { "x-service-signature": [headers["x-service-signature"], "0"] }],
    ["no timestamp", { "x-service-timestamp": undefined }],
    ["no delivery id", { "x-service-delivery-id": undefined }],
    [
      "a signature with the same number of characters but more bytes",
      { "x-service-signature": "é".repeat(64) },
    ],
  ])("%s", (_, change) => {
    expect(verifyWebhook({ ...request, headers: { ...headers, ...change } })).toEqual(bad);
  });

  test("an empty secret", () => {
    const signed = sign(`${timestamp}.${rawBody}`, "");
    const forged = { ...headers, "x-service-signature": signed };
    expect(verifyWebhook({ ...request, headers: forged, secret: "" })).toEqual(bad);
  });
  test("a different secret", () => expect(verifyWebhook({ ...request, secret: `${secret}x` })).toEqual(bad));

  test("headers with a different service name", () => {
    expect(verifyWebhook({ ...request, word: "acme" })).toEqual(bad);
    const renamed = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.replace("service", "acme"), value]),
    );
    expect(verifyWebhook({ ...request, headers: renamed, word: "acme" })).toEqual({ ok: true, deliveryId });
  });
});

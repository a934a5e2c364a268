import { randomBytes, randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import {
  challengeDay,
  isIssuedBy,
  issueChallenge,
  isTaggedWith,
  readChallenge,
} from "../../../src/proofs/present/challenge.ts";

const now = new Date("2026-03-04T23:59:59.500Z");
const key = { day: challengeDay(now), secret: randomBytes(32) };
const connectionId = randomUUID();

test("a challenge has 32 bytes and contains its expiry, 300 whole seconds after the second in which it was issued", () => {
  const challenge = issueChallenge(key, connectionId, now);
  expect(challenge).toHaveLength(32);
  expect(readChallenge(challenge)?.expiresAt.toISOString()).toBe("2026-03-05T00:04:59.000Z");
});

test("a challenge contains the day on which it was issued, even if it expires on the next day", () => {
  expect(readChallenge(issueChallenge(key, connectionId, now))?.day).toBe(key.day);
});

test("a challenge is recognized only with the key with which it was issued, at the connection to which it was issued", () => {
  const challenge = issueChallenge(key, connectionId, now);
  expect(isIssuedBy(key, challenge, connectionId)).toBe(true);
  expect(isIssuedBy(key, challenge, randomUUID())).toBe(false);
  expect(isIssuedBy({ ...key, secret: randomBytes(32) }, challenge, connectionId)).toBe(false);
});

test("a challenge shows which service issued it, whatever its connection", () => {
  const challenge = issueChallenge(key, connectionId, now);
  expect(isTaggedWith(key, challenge)).toBe(true);
  expect(isTaggedWith(key, issueChallenge(key, randomUUID(), now))).toBe(true);
  expect(isTaggedWith({ ...key, secret: randomBytes(32) }, challenge)).toBe(false);
  expect(isTaggedWith(key, randomBytes(32))).toBe(false);
  expect(isTaggedWith(key, challenge.subarray(0, 31))).toBe(false);
});

test("a challenge with any flipped bit is not recognized", () => {
  const challenge = issueChallenge(key, connectionId, now);
  for (let bit = 0; bit < 256; bit++) {
    const forged = Buffer.from(challenge);
    forged[bit >> 3] = (forged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    expect(isIssuedBy(key, forged, connectionId)).toBe(false);
  }
});

test("a challenge of a different length or version is rejected", () => {
  const challenge = issueChallenge(key, connectionId, now);
  expect(readChallenge(challenge.subarray(0, 31))).toBeUndefined();
  expect(readChallenge(Buffer.concat([challenge, Buffer.of(0)]))).toBeUndefined();
  expect(readChallenge(Buffer.concat([Buffer.of(2), challenge.subarray(1)]))).toBeUndefined();
});

test("challenges issued in the same second differ", () => {
  expect(issueChallenge(key, connectionId, now).equals(issueChallenge(key, connectionId, now))).toBe(false);
});

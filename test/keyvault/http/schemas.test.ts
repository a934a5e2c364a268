import { expect, test } from "vitest";
import type { z } from "zod";
import {
  ceilingBody,
  challengeBody,
  createKeyBody,
  delegationBody,
  idempotencyKeyPattern,
  listQuery,
  tenantName,
} from "../../../keyvault/http/schemas.ts";

const takes = (schema: z.ZodType, value: unknown): boolean => schema.safeParse(value).success;

const key = { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: ["data:read"] };
const challenge = { tenant: "acc-1", challenge: "", challenge_at: 0 };
const delegation = {
  tenant: "acc-1",
  certificate: {
    cert_id: "cert-1",
    version: 1,
    issuer_id: "i",
    subject_id: "s",
    subject_pub_key: { ed25519: "", ml_dsa_65: "" },
    scope: [],
    constraints: [],
    issued_at: 0,
    expires_at: 0,
  },
  approval: { ceiling: ["data:read"], request_id: "req-1", approved_by: "user-1" },
};
const approvedBy = (approved_by: string) => ({
  ...delegation,
  approval: { ...delegation.approval, approved_by },
});
const issuedBy = (issuer_id: string) => ({
  ...delegation,
  certificate: { ...delegation.certificate, issuer_id },
});
const inStream = (stream_seq: number, stream_id = "s") => ({
  ...challenge,
  stream: { stream_id, stream_seq },
});

test.each<[string, z.ZodType, (size: number) => unknown, number]>([
  ["characters of a tenant", tenantName, (size) => "a".repeat(size), 128],
  [
    "scopes of a ceiling",
    ceilingBody,
    (size) => ({ tenant: "a", ceiling: Array(size).fill("data:read") }),
    128,
  ],
  [
    "characters of a scope",
    ceilingBody,
    (size) => ({ tenant: "a", ceiling: ["custom:".padEnd(size, "x")] }),
    256,
  ],
  ["characters of a label", createKeyBody, (size) => ({ ...key, label: "x".repeat(size) }), 256],
  ["characters of an approver", delegationBody, (size) => approvedBy("x".repeat(size)), 320],
  ["characters of an issuer", delegationBody, (size) => issuedBy("x".repeat(size)), 512],
  ["characters of a challenge", challengeBody, (size) => ({ ...challenge, challenge: "x".repeat(size) }), 64],
  [
    "characters of a session's context",
    challengeBody,
    (size) => ({ ...challenge, session_context: "x".repeat(size) }),
    64,
  ],
  ["characters of a stream's id", challengeBody, (size) => inStream(1, "x".repeat(size)), 64],
  ["keys of a page", listQuery, (size) => ({ limit: String(size) }), 500],
])("the schemas accept the maximum number of %s and not one more", (_, schema, of, most) => {
  expect(takes(schema, of(most))).toBe(true);
  expect(takes(schema, of(most + 1))).toBe(false);
});

test("a list query defaults to 100 keys and requires at least one", () => {
  expect(listQuery.parse({})).toEqual({ limit: 100 });
  expect(takes(listQuery, { limit: "0" })).toBe(false);
});

test("stream numbers start at 1, and times start in 1970", () => {
  expect(takes(challengeBody, inStream(1))).toBe(true);
  expect(takes(challengeBody, inStream(0))).toBe(false);
  expect(takes(challengeBody, { ...challenge, challenge_at: -1 })).toBe(false);
});

test("an agent's key requires a ceiling, and a root key does not", () => {
  const { ceiling: _, ...without } = key;
  expect(takes(createKeyBody, without)).toBe(false);
  expect(takes(createKeyBody, { ...without, purpose: "account_root" })).toBe(true);
  expect(takes(createKeyBody, { ...key, purpose: "service" })).toBe(false);
});

test("an idempotency key has 8 to 200 characters without spaces", () => {
  for (const text of ["x".repeat(8), "x".repeat(200)]) {
    expect(idempotencyKeyPattern.test(text), text).toBe(true);
  }
  for (const text of ["x".repeat(7), "x".repeat(201), "seven and more", "grün-grün"]) {
    expect(idempotencyKeyPattern.test(text), text).toBe(false);
  }
});

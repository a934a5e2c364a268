import { z } from "zod";
import type { ConstraintContext } from "../../src/protocol/constraints/evaluate_constraints.ts";
import { type DelegationCert, delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { type ProofBundle, proofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { type JsonObject, plainJson } from "../../src/protocol/encoding/json.ts";
import {
  type Verification,
  type VerifyOptions,
  verifyBundle,
} from "../../src/protocol/verification/verify_bundle.ts";
import { type Expectations, reasonKey, type Vector } from "./vector.ts";

const CONTEXT_FIELDS: Record<string, keyof ConstraintContext> = {
  current_lat: "latitude",
  current_lon: "longitude",
  current_alt_m: "altitude_m",
  current_speed_mps: "speed_mps",
  requested_amount: "amount",
  requested_currency: "currency",
  requested_resource_id: "resource_id",
  requested_path: "path",
};
const INVOCATIONS_FIELD = /^invocations/;
const REVOCATION_OPTION = /revoked/;

/** Codes of faults that strict decoding detects earlier than verification (wire format §5). */
const DECODED_AWAY = [
  "no_delegations",
  "no_challenge",
  "invalid_session_context",
  "invalid_stream_id",
  "invalid_stream_seq",
  "invalid_agent_key",
];

const optionsSchema = z.looseObject({
  now: z.number(),
  required_scope: z.string().optional(),
  session_context: z.string().optional(),
  stream: z.object({ stream_id: z.string(), last_seen_seq: z.number() }).optional(),
});

const revokedSchema = z.union([
  z.array(z.string()),
  z.string().transform((id) => [id]),
  z.literal(false).transform((): string[] => []),
]);

const resultSchema = z.object({
  valid: z.boolean(),
  identity_status: z.string(),
  human_id: z.string().optional(),
  agent_id: z.string().optional(),
  granted_scope: z.array(z.string()).optional(),
  error_reason: z.string().optional(),
});

type Answer = Pick<
  Verification,
  "valid" | "identity_status" | "human_id" | "agent_id" | "granted_scope" | "error_reason"
> & { isUnreadable?: true };

/** Checks the signed bytes of every certificate and of the challenge, and the result of verification. */
export async function checkVerify(vector: Vector, document: JsonObject, expect: Expectations): Promise<void> {
  const { expected } = vector;
  const plain = plainJson(document.bundle ?? null) as ProofBundle;
  const signedBytes = z.array(z.string()).parse(expected.delegation_sign_bytes_hex ?? []);
  expect.equal("number of certificates", signedBytes.length, plain.delegations.length);
  for (const [index, hex] of signedBytes.entries()) {
    const certificate = plain.delegations[index];
    if (certificate !== undefined) {
      expect.bytes(`signed bytes of certificate ${index}`, hex, () => delegationSignBytes(certificate));
    }
  }
  expect.bytes("signed bytes of the challenge", expected.challenge_sign_bytes_hex, () =>
    challengeSignBytes(plain),
  );
  compareAnswer(
    expect,
    expected.verify_result,
    await answerOf(document, optionsOf(vector, plain.delegations)),
  );
}

/**
 * Compares `valid`, `identity_status`, the scope as a set, the parties, and the reason of a refusal. A
 * refusal names the parties only if the vector does, because the parties of a forged proof are unknown.
 */
export function compareAnswer(expect: Expectations, expected: unknown, got: Answer): void {
  const result = resultSchema.parse(expected);
  expect.equal("valid", result.valid, got.valid);
  expect.equal("identity_status", result.identity_status, got.identity_status);
  expect.equal("granted_scope", sorted(result.granted_scope), sorted(got.granted_scope));
  expect.equal("human_id", result.human_id ?? "", got.human_id ?? "");
  expect.equal("agent_id", result.agent_id ?? "", got.agent_id ?? "");
  if (result.error_reason !== undefined) compareReason(expect, result.error_reason, got);
}

function compareReason(
  expect: Expectations,
  reason: string,
  { error_reason = "", isUnreadable }: Answer,
): void {
  if (isUnreadable && DECODED_AWAY.includes(reasonKey(reason))) return;
  expect.reason("error_reason", reason, error_reason);
}

/**
 * Returns the options for verifying a vector's chain. An unknown option or context field is an error. If
 * `revoked` is expected and no certificate is named, the last certificate of the chain is revoked.
 */
export function optionsOf(
  { expected, verifier_context }: Vector,
  chain: readonly Pick<DelegationCert, "cert_id">[],
): VerifyOptions {
  const { now, required_scope, session_context, stream, ...others } = optionsSchema.parse(
    expected.verify_options,
  );
  const named = Object.entries(others).flatMap(([name, value]) => {
    if (!REVOCATION_OPTION.test(name)) throw new Error(`unknown verify option ${name}`);
    return value === true ? chain.map(({ cert_id }) => cert_id) : revokedSchema.parse(value);
  });
  const { identity_status } = resultSchema.parse(expected.verify_result);
  const last = chain.slice(-1).map(({ cert_id }) => cert_id);
  const revoked = named.length === 0 && identity_status === "revoked" ? last : named;
  return {
    now,
    required_scope,
    session_context,
    stream,
    context: contextOf(verifier_context ?? {}),
    revocation: ({ cert_id }) => revoked.includes(cert_id),
  };
}

function contextOf(fields: Record<string, number | string>): ConstraintContext {
  const context: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    const field = INVOCATIONS_FIELD.test(name) ? "invocations" : CONTEXT_FIELDS[name];
    if (field === undefined) throw new Error(`unknown context field ${name}`);
    context[field] = field === "invocations" ? () => value : value;
  }
  return context;
}

async function answerOf(document: JsonObject, options: VerifyOptions): Promise<Answer> {
  try {
    return await verifyBundle(proofBundle(document.bundle ?? null), options);
  } catch (error) {
    if (error instanceof ProtocolError) {
      return { valid: false, identity_status: "invalid", error_reason: error.message, isUnreadable: true };
    }
    throw error;
  }
}

function sorted(scopes: readonly string[] | undefined): string[] {
  return [...(scopes ?? [])].sort();
}

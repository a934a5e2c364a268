import { z } from "zod";
import { ApiError } from "../../errors.ts";
import { jsonText, MAX_BODY_BYTES, refuseNul, validate } from "../../input/validate.ts";
import { HIDDEN_DOT_SEGMENT, hidesDotSegment } from "../../protocol/constraints/resource_path.ts";
import { decodeProofBundle, type ProofBundle, proofBundle } from "../../protocol/documents/proof_bundle.ts";
import { MAX_JSON_NESTING_DEPTH, MAX_PROOF_BUNDLE_BYTES } from "../../protocol/encoding/constants.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import {
  type JsonMemo,
  type JsonObject,
  type JsonValue,
  parseJson,
  plainJson,
} from "../../protocol/encoding/json.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { StepAside } from "../admission/fair_queue.ts";
import { operationSchema, placeOf } from "../operation.ts";
import { decodeProofRef, type ProofRef } from "../present/proof_ref.ts";

const number = z.number();

/** Facts about the action, against which verification evaluates constraints (API reference, verify). */
export const verifyContext = z.object({
  latitude: number.min(-90).max(90).optional(),
  longitude: number.min(-180).max(180).optional(),
  altitude_m: number.optional(),
  speed_mps: number.min(0).optional(),
  amount: number.min(0).optional(),
  currency: z.string().max(16).optional(),
  resource_id: z.string().max(512).optional(),
  path: z
    .string()
    .max(4096)
    .refine((path) => !hidesDotSegment(path), HIDDEN_DOT_SEGMENT)
    .optional(),
});

/** The members of a verify call, except the proof. */
export const verifyOptions = z.object({
  required_scope: z.string().min(1).max(256),
  operation: operationSchema.optional().describe("The one action that the proof must be bound to"),
  context: verifyContext.optional(),
  explain: z.boolean().optional().describe("Answer with checks[]: each rule passed, failed or not reached"),
});

/** The whole request body, as documented. The code that reads the body is stricter than this schema. */
export const verifyBody = verifyOptions.extend({
  proof_bundle: z
    .union([z.record(z.string(), z.unknown()), z.string()])
    .optional()
    .describe("The bundle as present gave it, or its JSON in base64 or base64url"),
  proof_ref: z.string().optional().describe("Instead of the bundle: the reference that present gave"),
});

/** A proof as received: whole, or as a reference to certificates that this service stores. */
export type Proof = { bundle: ProofBundle } | { ref: ProofRef };

/** A verify call. Everything except its proof is already read and checked. */
export type VerifyCall = {
  caller: ApiKeyCaller;
  /** Throws `invalid_request` unless there is exactly one proof, and `invalid_proof` if it is malformed. */
  readProof: () => Proof;
  options: z.infer<typeof verifyOptions>;
  /** The agent that the proof must belong to, if the call names an agent in addition to the proof. */
  agentId?: string;
  /** Absent if the call has no queue slot. */
  stepAside?: StepAside;
};

/** Header that may carry the proof: the bundle's JSON, that JSON in base64 or base64url, or a reference. */
export const PROOF_HEADER = "x-service-proof";

/** Reads a verify call from the raw body. Throws `invalid_request` for any error outside the proof. */
export function readVerifyCall(
  caller: ApiKeyCaller,
  rawBody: Uint8Array,
  proofHeader: string | undefined,
  memo?: JsonMemo,
): VerifyCall {
  const { proof_bundle: bundle, proof_ref: ref, ...others } = readMembers(rawBody, { memo });
  const options = readOptions(plainJson(others));
  const proof = { bundle, ref, header: proofHeader };
  return { caller, options, readProof: () => readProof(proof, rawBody.length, memo) };
}

/**
 * Reads the members of a call beside its proof. With an operation, resource and path of the context are those
 * of the operation. Throws `invalid_request`; the message names members below `part`.
 */
export function readOptions(members: unknown, part = ""): z.infer<typeof verifyOptions> {
  const options = validate(verifyOptions, members, part);
  const { operation, context } = options;
  if (operation === undefined) return options;
  return { ...options, context: { ...context, ...placeOf(operation, context, part && `${part}.`) } };
}

/**
 * Reads the members of a raw body. Proofs may be nested up to `levels` levels below the body (default 1).
 * Throws `invalid_request` unless the body is one JSON object that the strict parser accepts. Marks whole
 * numbers outside ±(2^53−1) as `bigint`s, which proofs, operations and contexts refuse.
 */
export function readMembers(
  rawBody: Uint8Array,
  { levels = 1, memo }: { levels?: number; memo?: JsonMemo | undefined } = {},
): JsonObject {
  let value: JsonValue;
  try {
    const limits = { bytes: MAX_BODY_BYTES, depth: MAX_JSON_NESTING_DEPTH + levels };
    value = parseJson(rawBody, { ...limits, largeNumbers: "mark" }, memo);
  } catch (error) {
    throw refusal(error, "invalid_request", "body");
  }
  refuseNul(rawBody, value);
  if (!isJsonObject(value)) throw new ApiError("invalid_request", "body: must be a JSON object");
  return value;
}

/** Checks whether a strictly parsed value is an object. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && isPlainObject(value);
}

/** The alternative inputs that may contain a call's proof. */
export type Presented = {
  bundle?: JsonValue | undefined;
  ref?: JsonValue | undefined;
  header?: string | undefined;
};

/** Reads the proof of a call whose body has `bodyBytes` bytes. Throws what `VerifyCall.readProof` throws. */
export function readProof({ bundle, ref, header }: Presented, bodyBytes: number, memo?: JsonMemo): Proof {
  if (bundle !== undefined && ref !== undefined) {
    throw new ApiError("invalid_request", "send either proof_ref or proof_bundle, not both");
  }
  if (bundle === undefined && ref === undefined && header === undefined) {
    throw new ApiError("invalid_request", "proof_bundle: is required");
  }
  try {
    if (ref !== undefined) return { ref: readRef(ref) };
    if (bundle === undefined) return readText(header ?? "", memo);
    return { bundle: storable(readBundle(bundle, bodyBytes, memo)) };
  } catch (error) {
    throw refusal(error, "invalid_proof", ref === undefined ? "proof_bundle" : "proof_ref");
  }
}

/** Reads a proof from a header. Text that is not a valid reference is read as a bundle. */
function readText(text: string, memo: JsonMemo | undefined): Proof {
  const ref = decodeProofRef(text);
  return ref === undefined ? { bundle: storable(decodeText(text, memo)) } : { ref };
}

function readRef(text: JsonValue): ProofRef {
  const ref = typeof text === "string" ? decodeProofRef(text) : undefined;
  if (ref === undefined) throw new ProtocolError("wrong_type", "is not a proof reference");
  return ref;
}

function readBundle(proof: JsonValue, bodyBytes: number, memo: JsonMemo | undefined): ProofBundle {
  if (typeof proof === "string") return decodeText(proof, memo);
  if (bodyBytes > MAX_PROOF_BUNDLE_BYTES && bytesOf(proof) > MAX_PROOF_BUNDLE_BYTES) {
    throw new ProtocolError("too_large", `more than ${MAX_PROOF_BUNDLE_BYTES} bytes`);
  }
  return proofBundle(proof);
}

/** Counts the UTF-8 bytes of a bundle as JSON without white space. */
function bytesOf(proof: JsonValue): number {
  return Buffer.byteLength(jsonText(plainJson(proof)), "utf8");
}

/** Throws for ids with U+0000, which this service never issues and the database cannot store. */
function storable(bundle: ProofBundle): ProofBundle {
  const ids = bundle.delegations.flatMap(({ cert_id, issuer_id, subject_id }) => [
    cert_id,
    issuer_id,
    subject_id,
  ]);
  if ([bundle.agent_id, ...ids].some((id) => id.includes("\0"))) {
    throw new ProtocolError("wrong_type", "an id must not contain U+0000");
  }
  return bundle;
}

function decodeText(text: string, memo: JsonMemo | undefined): ProofBundle {
  if (text.startsWith("{")) return decodeProofBundle(Buffer.from(text, "utf8"), memo);
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) throw new ProtocolError("invalid_base64", "is not base64");
  return decodeProofBundle(Buffer.from(text, "base64"), memo);
}

function refusal(error: unknown, code: "invalid_request" | "invalid_proof", where: string): unknown {
  return error instanceof ProtocolError ? new ApiError(code, `${where}: ${error.message}`) : error;
}

function isPlainObject(value: object): value is JsonObject {
  return Object.getPrototypeOf(value) === Object.prototype;
}

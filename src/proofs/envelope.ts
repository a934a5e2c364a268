import { z } from "zod";
import { ApiError } from "../errors.ts";
import { MAX_JSON_NESTING_DEPTH, MAX_PROOF_BUNDLE_BYTES } from "../protocol/constants.ts";
import { ProtocolError } from "../protocol/errors.ts";
import { type JsonObject, type JsonValue, parseJson, plainJson } from "../protocol/json.ts";
import { decodeProofBundle, type ProofBundle, proofBundle } from "../protocol/proof_bundle.ts";

const number = z.number();

/** What the verifying application knows of the action; constraints are evaluated against it (api reference, verify). */
export const verifyContext = z.object({
  latitude: number.min(-90).max(90).optional(),
  longitude: number.min(-180).max(180).optional(),
  altitude_m: number.optional(),
  speed_mps: number.min(0).optional(),
  amount: number.optional(),
  currency: z.string().max(16).optional(),
  resource_id: z.string().max(512).optional(),
  path: z.string().max(4096).optional(),
});

/** The members of a verify call besides the proof itself. */
export const verifyOptions = z.object({
  required_scope: z.string().min(1).max(256),
  context: verifyContext.optional(),
  explain: z.boolean().optional().describe("Answer with checks[]: each rule passed, failed or not reached"),
});

/** The whole body as documented; reading it is stricter than this schema. */
export const verifyBody = verifyOptions.extend({
  proof_bundle: z
    .union([z.record(z.string(), z.unknown()), z.string()])
    .describe("The bundle as present gave it, or its JSON in base64 or base64url"),
});

/** A verify call, strictly read. */
export type VerifyCall = { bundle: ProofBundle; options: z.infer<typeof verifyOptions> };

/** Header that may carry the proof instead of the body: JSON, base64 or base64url. */
export const PROOF_HEADER = "x-service-proof";

const BODY_LIMITS = { bytes: 256 * 1024, depth: MAX_JSON_NESTING_DEPTH + 1 };

/**
 * Reads a verify call from the raw body, in one pass with the strict parser, so that duplicate keys and number forms
 * are seen. Throws `invalid_request` for the call, `invalid_proof` for the bundle.
 */
export function readVerifyCall(rawBody: Uint8Array, proofHeader: string | undefined): VerifyCall {
  const members = readMembers(rawBody);
  const { proof_bundle: proof, ...others } = members;
  refuseUnavailable(others);
  const options = verifyOptions.safeParse(plainJson(others));
  if (!options.success) {
    const [issue] = options.error.issues;
    throw new ApiError(
      "invalid_request",
      `${issue?.path.join(".") || "body"}: ${issue?.message ?? "is invalid"}`,
    );
  }
  return { bundle: readBundle(proof, proofHeader, rawBody.length), options: options.data };
}

/** Members that bind a decision to something must never be passed over in silence. */
const NOT_AVAILABLE = ["operation", "proof_ref"];

/** Refuses a call that asks for what this version cannot check. Throws `not_available`. */
export function refuseUnavailable(members: Readonly<Record<string, unknown>>): void {
  const name = NOT_AVAILABLE.find((member) => members[member] !== undefined);
  if (name !== undefined) throw new ApiError("not_available", `${name}: is not available yet`);
}

function readMembers(rawBody: Uint8Array): JsonObject {
  let value: JsonValue;
  try {
    value = parseJson(rawBody, BODY_LIMITS);
  } catch (error) {
    throw refusal(error, "invalid_request", "body");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value) || !isPlainObject(value)) {
    throw new ApiError("invalid_request", "body: must be a JSON object");
  }
  return value;
}

function readBundle(
  proof: JsonValue | undefined,
  header: string | undefined,
  bodyBytes: number,
): ProofBundle {
  if (proof === undefined && header === undefined) {
    throw new ApiError("invalid_request", "proof_bundle: is required");
  }
  try {
    if (proof === undefined) return storable(decodeText(header ?? ""));
    if (typeof proof === "string") return storable(decodeText(proof));
    if (bodyBytes > MAX_PROOF_BUNDLE_BYTES && bytesOf(proof) > MAX_PROOF_BUNDLE_BYTES) {
      throw new ProtocolError("too_large", `more than ${MAX_PROOF_BUNDLE_BYTES} bytes`);
    }
    return storable(proofBundle(proof));
  } catch (error) {
    throw refusal(error, "invalid_proof", "proof_bundle");
  }
}

/** UTF-8 bytes of a bundle as JSON without white space. */
function bytesOf(proof: JsonValue): number {
  return Buffer.byteLength(JSON.stringify(plainJson(proof)), "utf8");
}

/** Refuses ids with U+0000, which no issuer of ours makes and the database cannot keep. */
function storable(bundle: ProofBundle): ProofBundle {
  const ids = bundle.delegations.flatMap(({ cert_id, issuer_id, subject_id }) => [
    cert_id,
    issuer_id,
    subject_id,
  ]);
  if ([bundle.agent_id, ...ids].some((id) => id.includes("\0"))) {
    throw new ProtocolError("wrong_type", "an id holds U+0000");
  }
  return bundle;
}

/** A bundle as text: its JSON, or that in base64 or base64url. */
function decodeText(text: string): ProofBundle {
  if (text.startsWith("{")) return decodeProofBundle(Buffer.from(text, "utf8"));
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) throw new ProtocolError("invalid_base64", "not base64");
  return decodeProofBundle(Buffer.from(text, "base64"));
}

function refusal(error: unknown, code: "invalid_request" | "invalid_proof", where: string): unknown {
  return error instanceof ProtocolError ? new ApiError(code, `${where}: ${error.message}`) : error;
}

function isPlainObject(value: object): value is JsonObject {
  return Object.getPrototypeOf(value) === Object.prototype;
}

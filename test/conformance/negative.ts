import { decodeProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { decodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import type { JsonObject } from "../../src/protocol/encoding/json.ts";
import { verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";
import { decodeSessionToken } from "./extensions/session_token.ts";
import type { VectorResult } from "./run.ts";

/**
 * Passes one malformed document to the decoder of its target, which must refuse the document. For a case with
 * the `strictness` `decode_or_verify`, verification may refuse it instead.
 */
export async function checkNegativeCase(item: JsonObject): Promise<VectorResult> {
  const { name, target, doc_b64, strictness } = item;
  if (typeof doc_b64 !== "string") throw new Error("the case has no doc_b64");
  const answer = await refusalOf(String(target), decodeBase64(doc_b64), strictness === "decode_or_verify");
  const mismatches =
    answer === undefined ? [{ check: String(strictness), expected: "refused", got: "accepted" }] : [];
  return { kind: "wire-negative", name: String(name), mismatches };
}

async function refusalOf(
  target: string,
  document: Uint8Array,
  mayVerify: boolean,
): Promise<string | undefined> {
  try {
    if (target === "token") {
      decodeSessionToken(document);
      return undefined;
    }
    if (target !== "bundle") throw new Error(`unknown target ${target}`);
    const bundle = decodeProofBundle(document);
    if (!mayVerify) return undefined;
    return (await verifyBundle(bundle, { now: bundle.challenge_at })).error_reason;
  } catch (error) {
    if (error instanceof ProtocolError) return error.message;
    throw error;
  }
}

import { isDeepStrictEqual } from "node:util";
import { canonicalBytes, canonicalJson } from "../../src/protocol/encoding/canonical.ts";
import { MAX_PROOF_BUNDLE_BYTES } from "../../src/protocol/encoding/constants.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../src/protocol/encoding/json.ts";
import { independentCanonicalJson } from "../support/canonical_oracle.ts";

const SIGNATURE_CHARACTERS = [88, 4412];

/** Fails the current input unless `holds` is true. */
export function demand(holds: boolean, claim: string): asserts holds {
  if (!holds) throw new Error(claim);
}

/** Returns the code and the location of a refusal, without positions. Rethrows any other error as a crash. */
export function refusedWith(error: unknown): string {
  if (!(error instanceof ProtocolError)) throw error;
  return `${error.code} ${error.path.replaceAll(/\d+/g, "#").slice(0, 80)}`;
}

/** If the parser accepts an input, `JSON.parse` gives the same values, and the canonical text is stable. */
export function parse(input: Uint8Array): string {
  let plain: unknown;
  try {
    plain = plainJson(parseJson(input));
  } catch (error) {
    return refusedWith(error);
  }
  demand(isDeepStrictEqual(plain, jsonParse(input)), "the parser reads other values than JSON.parse");
  const text = canonicalJson(plain);
  demand(
    text === independentCanonicalJson(plain),
    "canonical JSON differs from an independent implementation",
  );
  demand(text === canonicalJson(JSON.parse(text)), "canonical JSON is not stable");
  return "accepted";
}

/**
 * If the decoder accepts an input, the object must have exactly the document's content, and the decoder must
 * accept the object's canonical form too. Returns the refusal or the decoded object.
 */
export function decode<T>(decoder: (bytes: Uint8Array) => T, input: Uint8Array): string | { object: T } {
  let object: T;
  try {
    object = decoder(input);
  } catch (error) {
    return refusedWith(error);
  }
  const text = canonicalJson(object);
  demand(text === canonicalJson(jsonParse(input)), "the decoder lost or added something");
  const again = canonicalBytes(object);
  if (again.length <= MAX_PROOF_BUNDLE_BYTES) {
    demand(canonicalJson(decoder(again)) === text, "decoding what was encoded gives something else");
  }
  return { object };
}

/** Returns every signature string in a document, at any depth. */
export function signatureTexts(value: unknown): string[] {
  if (typeof value === "string") return SIGNATURE_CHARACTERS.includes(value.length) ? [value] : [];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(signatureTexts);
}

function jsonParse(input: Uint8Array): unknown {
  return JSON.parse(Buffer.from(input).toString("utf8"));
}

import { parseJson } from "../protocol/encoding/json.ts";

/** A proof as an application receives it: the value of a header, or a member of a JSON object. */
export type ProofSource = string | { proof_bundle: object | string } | { proof_ref: string };

/** A proof in the form that verify expects: a member's name, and its JSON exactly as it arrived. */
export type Proof = {
  member: "proof_bundle" | "proof_ref";
  json: string;
  /** The agent id in a bundle. A reference contains none. Untrusted until verify has responded. */
  agentId: string | undefined;
};

const MAX_TEXT = 180_000;
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;
const OPENING_BRACE = 0x7b;

/**
 * Reads a proof: a bundle as JSON, in base64 or in base64url, or a `proof_ref`. Does not change the bundle's
 * content. Returns `undefined` if the source is neither.
 */
export function readProof(source: unknown): Proof | undefined {
  if (typeof source === "string") return readText(source.trim());
  if (typeof source !== "object" || source === null) return undefined;
  if ("proof_bundle" in source) {
    const bundle = source.proof_bundle;
    if (typeof bundle === "string") return readText(bundle.trim());
    return typeof bundle === "object" && bundle !== null ? readBundle(JSON.stringify(bundle)) : undefined;
  }
  if ("proof_ref" in source && typeof source.proof_ref === "string" && source.proof_ref.length <= MAX_TEXT) {
    return reference(source.proof_ref);
  }
  return undefined;
}

function readText(text: string): Proof | undefined {
  if (text.length > MAX_TEXT) return undefined;
  if (text.startsWith("{")) return readBundle(text);
  if (!BASE64.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64");
  return bytes[0] === OPENING_BRACE ? readBundle(bytes.toString("utf8")) : reference(text);
}

function reference(text: string): Proof {
  return { member: "proof_ref", json: JSON.stringify(text), agentId: undefined };
}

/** Reads one strictly valid JSON object. The text becomes a part of the request body without a change. */
function readBundle(json: string): Proof | undefined {
  try {
    const value = parseJson(Buffer.from(json, "utf8"));
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    const agentId = Object.hasOwn(value, "agent_id") ? Reflect.get(value, "agent_id") : undefined;
    return { member: "proof_bundle", json, agentId: typeof agentId === "string" ? agentId : undefined };
  } catch {
    return undefined;
  }
}

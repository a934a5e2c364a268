import { LRUCache } from "lru-cache";
import type { Database } from "../../db/database.ts";
import {
  certificate,
  type DelegationCert,
  decodeDelegationCert,
} from "../../protocol/documents/certificate.ts";
import { structureBytes } from "../../protocol/documents/certificate_memory.ts";
import type { ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import { encodeBase64 } from "../../protocol/encoding/base64.ts";
import { BINDING_BYTES, MAX_DELEGATION_CHAIN_DEPTH } from "../../protocol/encoding/constants.ts";

const VERSION = 1;
const UUID_BYTES = 16;
const ED25519_BYTES = 64;
const ML_DSA_BYTES = 3309;
const CERT_ID_PREFIX = "cert-";
/**
 * Byte offsets of `version ‖ flags ‖ depth ‖ challenge ‖ u64be(challenge_at) ‖ Ed25519 ‖ ML-DSA-65`. The
 * optional context and the ids follow.
 */
const AT = { flags: 1, depth: 2, challenge: 3, signedAt: 35, ed25519: 43, mlDsa: 107, rest: 3416 } as const;
const HAS_CONTEXT = 1;

/** Length of the longest proof reference: eight certificates and a session context. */
export const MAX_PROOF_REF_LENGTH = 4_768;

/**
 * Encodes a proof with the ids of its certificates, as base64url without padding. The reference fits into the
 * default header limits of gateways. Only a service that stores the certificates can resolve it.
 */
export function encodeProofRef(bundle: ProofBundle): string {
  const { session_context: context, delegations } = bundle;
  const head = Buffer.alloc(AT.challenge);
  head[0] = VERSION;
  head[AT.flags] = context === undefined ? 0 : HAS_CONTEXT;
  head[AT.depth] = delegations.length;
  const signedAt = Buffer.alloc(8);
  signedAt.writeBigUInt64BE(BigInt(bundle.challenge_at));
  return Buffer.concat([
    head,
    Buffer.from(bundle.challenge, "base64"),
    signedAt,
    Buffer.from(bundle.challenge_sig.ed25519, "base64"),
    Buffer.from(bundle.challenge_sig.ml_dsa_65, "base64"),
    Buffer.from(context ?? "", "base64"),
    ...delegations.map(({ cert_id: id }) =>
      Buffer.from(id.slice(CERT_ID_PREFIX.length).replaceAll("-", ""), "hex"),
    ),
  ]).toString("base64url");
}

/** A strictly decoded proof reference, with the ids of its certificates. */
export type ProofRef = {
  /** The agent's certificate comes first, and the root's certificate last. */
  certIds: string[];
  signed: Pick<ProofBundle, "challenge" | "challenge_at" | "challenge_sig" | "session_context">;
};

/** Decodes a reference. Returns `undefined` unless every byte is as {@link encodeProofRef} writes it. */
export function decodeProofRef(text: string): ProofRef | undefined {
  if (text.length > MAX_PROOF_REF_LENGTH) return undefined;
  const bytes = Buffer.from(text, "base64url");
  if (bytes.toString("base64url") !== text || bytes[0] !== VERSION) return undefined;
  const [flags, depth] = [bytes[AT.flags] ?? 0, bytes[AT.depth] ?? 0];
  if (flags > HAS_CONTEXT || depth < 1 || depth > MAX_DELEGATION_CHAIN_DEPTH) return undefined;
  const contextEnd = AT.rest + (flags === HAS_CONTEXT ? BINDING_BYTES : 0);
  if (bytes.length !== contextEnd + depth * UUID_BYTES) return undefined;
  const signedAt = bytes.readBigUInt64BE(AT.signedAt);
  if (signedAt > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
  const part = (from: number, to: number) => encodeBase64(bytes.subarray(from, to));
  return {
    certIds: Array.from({ length: depth }, (_, n) =>
      certIdOf(bytes.subarray(contextEnd + n * UUID_BYTES).subarray(0, UUID_BYTES)),
    ),
    signed: {
      challenge: part(AT.challenge, AT.signedAt),
      challenge_at: Number(signedAt),
      challenge_sig: {
        ed25519: part(AT.ed25519, AT.ed25519 + ED25519_BYTES),
        ml_dsa_65: part(AT.mlDsa, AT.mlDsa + ML_DSA_BYTES),
      },
      ...(flags === HAS_CONTEXT ? { session_context: part(AT.rest, contextEnd) } : {}),
    },
  };
}

function certIdOf(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString("hex");
  return `${CERT_ID_PREFIX}${hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")}`;
}

/** Returns a reference's whole bundle, or `undefined` if one of its certificates was never issued here. */
export type ResolveProofRef = (ref: ProofRef) => Promise<ProofBundle | undefined>;

/** Maximum size of the cache in bytes: about 1,600 certificates, with their parsed parts in other caches. */
const REMEMBERED_BYTES = 50_000_000;
/** Number of copies of a certificate in memory: decoded strings, canonical JSON, and the JSON's bytes. */
const TEXTS = 3;

/** Creates a resolver that caches certificates. It does not check whether a certificate is revoked. */
export function createProofRefResolver(db: Database): ResolveProofRef {
  const certificates = new LRUCache<string, DelegationCert>({
    maxSize: REMEMBERED_BYTES,
    sizeCalculation: (kept) => TEXTS * JSON.stringify(kept).length + structureBytes(kept),
    fetchMethod: async (certId) => {
      const row = await db("certificates").select("cert_json").where({ cert_id: certId }).first();
      return row && certificate.keep(decodeDelegationCert(Buffer.from(row.cert_json, "utf8")));
    },
  });
  return async ({ certIds, signed }) => {
    const found = await Promise.all(certIds.map((certId) => certificates.fetch(certId)));
    const delegations = found.filter((certificate) => certificate !== undefined);
    const [leaf] = delegations;
    if (leaf === undefined || delegations.length < certIds.length) return undefined;
    return { agent_id: leaf.subject_id, agent_pub_key: leaf.subject_pub_key, delegations, ...signed };
  };
}

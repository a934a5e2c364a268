import { hash } from "node:crypto";
import { canonicalJson } from "../encoding/canonical.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { type Decoder, identifier, list, object } from "../encoding/fields.ts";
import { type JsonMemo, parseJson } from "../encoding/json.ts";
import { type HybridPublicKey, type HybridSignature, publicKey } from "../keys/hybrid.ts";
import { certificate, certificateText, type DelegationCert } from "./certificate.ts";
import type { RecentCertificates } from "./certificate_memory.ts";
import {
  ANSWER_FIELDS,
  type ChallengeBinding,
  OPTIONAL_ANSWER_FIELDS,
  requireStreamPair,
} from "./challenge.ts";

/** An agent's answer to a challenge, with the agent's certificate chain (wire format §4). */
export type ProofBundle = ChallengeBinding & {
  agent_id: string;
  agent_pub_key: HybridPublicKey;
  /** Leaf first, root last. */
  delegations: DelegationCert[];
  challenge_sig: HybridSignature;
};

const decodeFields: Decoder<ProofBundle> = object(
  {
    agent_id: identifier,
    agent_pub_key: publicKey,
    delegations: list(certificate),
    ...ANSWER_FIELDS,
  },
  OPTIONAL_ANSWER_FIELDS,
);

/**
 * Decodes a proof bundle from a strictly parsed document. Does not limit the length of the chain, because
 * verification does (`chain_too_deep`). Throws `ProtocolError` if the fields do not match the format (wire
 * format §5), `empty_chain`, and `missing_field` if only one stream field is present.
 */
export const proofBundle: Decoder<ProofBundle> = (value) => {
  const bundle = decodeFields(value);
  if (bundle.delegations.length === 0) {
    throw new ProtocolError("empty_chain", "no certificate", "delegations");
  }
  requireStreamPair(bundle);
  return bundle;
};

/** Parses and decodes an untrusted proof bundle strictly (wire format §5). Throws `ProtocolError`. */
export function decodeProofBundle(bytes: Uint8Array, memo?: JsonMemo): ProofBundle {
  return proofBundle(parseJson(bytes, undefined, memo));
}

/**
 * Returns the bundle hash in a verification receipt: the SHA-256 of the bundle's canonical JSON (wire format
 * §4). In this JSON, an absent `session_context` or `stream_id` is `""`, and an absent `stream_seq` is 0.
 * Uses the stored bytes of certificates in `recent`. Throws `ProtocolError` as {@link canonicalJson} does.
 */
export function bundleHash(bundle: ProofBundle, recent?: Pick<RecentCertificates, "bytesOf">): Uint8Array {
  const { agent_id, agent_pub_key, challenge, challenge_at, challenge_sig } = bundle;
  const { session_context = "", stream_id = "", stream_seq = 0 } = bundle;
  const head = canonicalJson({ agent_id, agent_pub_key, challenge, challenge_at, challenge_sig });
  const tail = canonicalJson({ session_context, stream_id, stream_seq });
  const chain = bundle.delegations.flatMap((each) => [
    COMMA,
    recent?.bytesOf(each) ?? Buffer.from(certificateText(each), "utf8"),
  ]);
  const parts = [
    Buffer.from(`${head.slice(0, -1)},"delegations":[`, "utf8"),
    ...chain.slice(1),
    Buffer.from(`],${tail.slice(1)}`, "utf8"),
  ];
  return hash("sha256", Buffer.concat(parts), "buffer");
}

const COMMA = Buffer.from(",");

/** Returns the root certificate of a bundle's chain, which the root key signed. */
export function rootCertificate({ delegations }: ProofBundle): DelegationCert {
  return delegations.at(-1) as DelegationCert;
}

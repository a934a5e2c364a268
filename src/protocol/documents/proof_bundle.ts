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

/**
 * An agent's answer to a challenge, with the chain of certificates it acts under: wire format §4, field for
 * field.
 */
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
 * A proof bundle inside a strictly parsed document. Its depth is left to verification, which answers
 * `chain_too_deep`.
 *
 * Throws `ProtocolError` for any fault of shape (wire format §5); `empty_chain` without certificates;
 * `missing_field` with one stream field alone
 */
export const proofBundle: Decoder<ProofBundle> = (value) => {
  const bundle = decodeFields(value);
  if (bundle.delegations.length === 0) {
    throw new ProtocolError("empty_chain", "no certificate", "delegations");
  }
  requireStreamPair(bundle);
  return bundle;
};

/**
 * Reads an untrusted proof bundle strictly, before any signature work (wire format §5).
 *
 * Throws `ProtocolError` of any code of the parser and of {@link proofBundle}
 */
export function decodeProofBundle(bytes: Uint8Array, memo?: JsonMemo): ProofBundle {
  return proofBundle(parseJson(bytes, undefined, memo));
}

/**
 * SHA-256 of the canonical bundle in its fixed shape, 32 bytes: what a verification receipt records (wire
 * format §4). In that shape `session_context`, `stream_id` and `stream_seq` are there also when absent, as
 * `""` and 0. Certificates that `recent` keeps are not made canonical again.
 *
 * Throws `ProtocolError` as {@link canonicalJson} does
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

/** The certificate of a bundle's chain that the root key signed. */
export function rootCertificate({ delegations }: ProofBundle): DelegationCert {
  return delegations.at(-1) as DelegationCert;
}

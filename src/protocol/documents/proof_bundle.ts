import { hash } from "node:crypto";
import { canonicalJson } from "../encoding/canonical.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { type Decoder, identifier, list, object } from "../encoding/fields.ts";
import { parseJson } from "../encoding/json.ts";
import { publicKey } from "../keys/fields.ts";
import type { HybridPublicKey, HybridSignature } from "../keys/hybrid.ts";
import { certificate, certificateText, type DelegationCert } from "./certificate.ts";
import { type ChallengeBinding, requireStreamPair } from "./challenge.ts";
import { ANSWER_FIELDS, OPTIONAL_ANSWER_FIELDS } from "./challenge_decoding.ts";
import type { RecentCertificates } from "./recent_certificates.ts";

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
export function decodeProofBundle(bytes: Uint8Array): ProofBundle {
  return proofBundle(parseJson(bytes));
}

/**
 * Stands in a bundle's text once: inside a string the quotes would be escaped, and no other object of it has
 * such a member.
 */
const NO_DELEGATIONS = '"delegations":[]';

/**
 * SHA-256 of the canonical bundle in its fixed shape, 32 bytes: what a verification receipt records (wire
 * format §4). In that shape `session_context`, `stream_id` and `stream_seq` are there also when absent, as
 * `""` and 0. Certificates that `recent` keeps are not made canonical again.
 */
export function bundleHash(bundle: ProofBundle, recent?: Pick<RecentCertificates, "textOf">): Uint8Array {
  const { agent_id, agent_pub_key, challenge, challenge_at, challenge_sig } = bundle;
  const { session_context = "", stream_id = "", stream_seq = 0 } = bundle;
  const signed = { agent_id, agent_pub_key, challenge, challenge_at, challenge_sig };
  const text = canonicalJson({ ...signed, delegations: [], session_context, stream_id, stream_seq });
  const cut = text.indexOf(NO_DELEGATIONS) + NO_DELEGATIONS.length - 1;
  const chain = bundle.delegations.map((each) => recent?.textOf(each) ?? certificateText(each));
  return hash("sha256", `${text.slice(0, cut)}${chain.join(",")}${text.slice(cut)}`, "buffer");
}

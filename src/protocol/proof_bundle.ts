import { hash } from "node:crypto";
import { canonicalJson } from "./canonical.ts";
import { certificate, type DelegationCert } from "./certificate.ts";
import { type ChallengeBinding, requireStreamPair } from "./challenge.ts";
import { ANSWER_FIELDS, OPTIONAL_ANSWER_FIELDS } from "./challenge_decoding.ts";
import { ProtocolError } from "./errors.ts";
import type { HybridPublicKey, HybridSignature } from "./hybrid.ts";
import { parseJson } from "./json.ts";
import { type Decoder, identifier, list, object, publicKey } from "./shape.ts";

/** An agent's answer to a challenge, with the chain of certificates it acts under: wire format §4, field for field. */
export interface ProofBundle extends ChallengeBinding {
  agent_id: string;
  agent_pub_key: HybridPublicKey;
  /** Leaf first, root last. */
  delegations: DelegationCert[];
  challenge_sig: HybridSignature;
}

const shape: Decoder<ProofBundle> = object(
  {
    agent_id: identifier,
    agent_pub_key: publicKey,
    delegations: list(certificate),
    ...ANSWER_FIELDS,
  },
  OPTIONAL_ANSWER_FIELDS,
);

/**
 * A proof bundle inside a strictly parsed document. Its depth is left to verification, which answers `chain_too_deep`.
 *
 * @throws ProtocolError for any fault of shape (wire format §5); `empty_chain` without certificates; `missing_field` with one
 * stream field alone
 */
export const proofBundle: Decoder<ProofBundle> = (value) => {
  const bundle = shape(value);
  if (bundle.delegations.length === 0)
    throw new ProtocolError("empty_chain", "no certificate", "delegations");
  requireStreamPair(bundle);
  return bundle;
};

/**
 * Reads an untrusted proof bundle strictly, before any signature work (wire format §5).
 *
 * @throws ProtocolError of any code of the parser and of {@link proofBundle}
 */
export function decodeProofBundle(bytes: Uint8Array): ProofBundle {
  return proofBundle(parseJson(bytes));
}

/** SHA-256 of the canonical bundle, 32 bytes: what a verification receipt records (wire format §4). */
export function bundleHash(bundle: ProofBundle): Uint8Array {
  return hash("sha256", canonicalJson(bundle), "buffer");
}

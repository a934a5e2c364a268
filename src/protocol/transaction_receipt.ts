import { canonicalBytes, compareUtf8 } from "./canonical.ts";
import { PROTOCOL_VERSION } from "./constants.ts";
import {
  equalPublicKeys,
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSignature,
  signatureFault,
  signHybrid,
} from "./hybrid.ts";
import { parseJson } from "./json.ts";
import { type ProofBundle, proofBundle } from "./proof_bundle.ts";
import {
  base64,
  type Decoder,
  identifier,
  integer,
  list,
  object,
  publicKey,
  signature,
  text,
  timestamp,
} from "./shape.ts";
import { type VerifyOptions, verifyBundle } from "./verify.ts";

/** Who takes part in a transaction. These four fields are signed. */
export interface Party {
  party_id: string;
  role: string;
  agent_id: string;
  agent_pub_key: HybridPublicKey;
}

/** A party with the proof that its agent may act. The proof is not among the signed bytes; it carries its own signatures. */
export interface ProvenParty extends Party {
  proof_bundle: ProofBundle;
}

/** One party's signature over the whole transaction. */
export interface PartySignature {
  party_id: string;
  signature: HybridSignature;
}

/** What several agents agreed on, signed by each of them: wire format §4, field for field. */
export interface TransactionReceipt {
  version: number;
  transaction_id: string;
  /** Unix seconds. */
  created_at: number;
  terms_schema_uri: string;
  /** Base64 of the terms. */
  terms_canonical_json: string;
  parties: ProvenParty[];
  party_signatures: PartySignature[];
}

/** A receipt before it is signed, with what is signed of its parties. */
export type TransactionFields = Omit<TransactionReceipt, "parties" | "party_signatures"> & {
  parties: readonly Party[];
};

/**
 * Why a transaction receipt is refused. Closed.
 *
 * - `version_mismatch`: not version 1
 * - `no_parties`, `duplicate_party`, `duplicate_party_signature`, `unknown_party_signature`: signatures and parties do not pair up
 * - `missing_party_signature`, `party_signature_invalid`: a party did not sign this transaction
 * - `party_agent_mismatch`, `party_proof_invalid`: a party's proof is another agent's or does not hold
 */
export type ReceiptFaultCode =
  | "version_mismatch"
  | "no_parties"
  | "duplicate_party"
  | "duplicate_party_signature"
  | "unknown_party_signature"
  | "missing_party_signature"
  | "party_signature_invalid"
  | "party_agent_mismatch"
  | "party_proof_invalid";

/** One reason to refuse a transaction receipt. */
export interface ReceiptFault {
  code: ReceiptFaultCode;
  detail: string;
}

const shape: Decoder<TransactionReceipt> = object({
  version: integer(),
  transaction_id: identifier,
  created_at: timestamp,
  terms_schema_uri: text(),
  terms_canonical_json: base64(),
  parties: list(
    object({
      party_id: identifier,
      role: identifier,
      agent_id: identifier,
      agent_pub_key: publicKey,
      proof_bundle: proofBundle,
    }),
  ),
  party_signatures: list(object({ party_id: identifier, signature })),
});

/** Reads an untrusted receipt strictly (wire format §5). Throws `ProtocolError`. */
export function decodeTransactionReceipt(bytes: Uint8Array): TransactionReceipt {
  return shape(parseJson(bytes));
}

/** The bytes that every party signs: the transaction with its parties sorted by id, without proofs and signatures. */
export function transactionReceiptSignBytes(fields: TransactionFields): Uint8Array {
  const { version, transaction_id, created_at, terms_schema_uri, terms_canonical_json } = fields;
  const parties = fields.parties
    .map(({ agent_id, agent_pub_key, party_id, role }) => ({ agent_id, agent_pub_key, party_id, role }))
    .sort((left, right) => compareUtf8(left.party_id, right.party_id));
  return canonicalBytes({
    created_at,
    parties,
    terms_canonical_json,
    terms_schema_uri,
    transaction_id,
    version,
  });
}

/** One party's signature over a transaction. */
export async function signTransaction(
  fields: TransactionFields,
  partyId: string,
  agent: HybridPrivateKey,
): Promise<PartySignature> {
  return { party_id: partyId, signature: await signHybrid(agent, transactionReceiptSignBytes(fields)) };
}

/**
 * Why a receipt does not hold; `undefined` when every party signed it once and every party's own proof verifies.
 *
 * @param optionsOf what a party's proof is verified against, as for `verifyBundle`
 */
export async function verifyTransactionReceipt(
  receipt: TransactionReceipt,
  optionsOf: (party: ProvenParty) => VerifyOptions,
): Promise<ReceiptFault | undefined> {
  const unpaired = pairingFault(receipt);
  if (unpaired !== undefined) return unpaired;
  const bytes = transactionReceiptSignBytes(receipt);
  for (const party of receipt.parties) {
    const refused = await signingFault(party, receipt, bytes);
    if (refused !== undefined) return refused;
  }
  for (const party of receipt.parties) {
    const refused = await proofFault(party, optionsOf(party));
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function pairingFault({ version, parties, party_signatures }: TransactionReceipt): ReceiptFault | undefined {
  if (version !== PROTOCOL_VERSION) return { code: "version_mismatch", detail: `version ${version}` };
  if (parties.length === 0) return { code: "no_parties", detail: "a transaction has parties" };
  const named = parties.map(({ party_id }) => party_id);
  const signed = party_signatures.map(({ party_id }) => party_id);
  if (new Set(named).size < named.length) {
    return { code: "duplicate_party", detail: "a party is listed twice" };
  }
  if (new Set(signed).size < signed.length) {
    return { code: "duplicate_party_signature", detail: "a party signed twice" };
  }
  const stranger = signed.find((id) => !named.includes(id));
  return stranger === undefined
    ? undefined
    : {
        code: "unknown_party_signature",
        detail: `${JSON.stringify(stranger)} signed and is no party`,
      };
}

async function signingFault(
  { party_id, agent_pub_key }: Party,
  { party_signatures }: TransactionReceipt,
  bytes: Uint8Array,
): Promise<ReceiptFault | undefined> {
  const found = party_signatures.find((candidate) => candidate.party_id === party_id);
  const party = `party ${JSON.stringify(party_id)}`;
  if (found === undefined) {
    return { code: "missing_party_signature", detail: `${party} has no signature` };
  }
  const fault = await signatureFault(agent_pub_key, bytes, found.signature);
  return fault === undefined ? undefined : { code: "party_signature_invalid", detail: `${party}: ${fault}` };
}

async function proofFault(party: ProvenParty, options: VerifyOptions): Promise<ReceiptFault | undefined> {
  const { party_id, agent_id, agent_pub_key, proof_bundle } = party;
  const name = `party ${JSON.stringify(party_id)}`;
  if (agent_id !== proof_bundle.agent_id || !equalPublicKeys(agent_pub_key, proof_bundle.agent_pub_key)) {
    return { code: "party_agent_mismatch", detail: `${name}: the proof is another agent's` };
  }
  const { valid, error_reason } = await verifyBundle(proof_bundle, options);
  return valid ? undefined : { code: "party_proof_invalid", detail: `${name}: ${error_reason}` };
}

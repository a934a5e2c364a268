import { type ProofBundle, proofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { canonicalBytes, compareUtf8 } from "../../../src/protocol/encoding/canonical.ts";
import { PROTOCOL_VERSION } from "../../../src/protocol/encoding/constants.ts";
import {
  base64,
  type Decoder,
  identifier,
  integer,
  list,
  object,
  text,
  timestamp,
} from "../../../src/protocol/encoding/fields.ts";
import { parseJson } from "../../../src/protocol/encoding/json.ts";
import {
  equalPublicKeys,
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSignature,
  publicKey,
  signature,
  signatureViolation,
  signHybrid,
} from "../../../src/protocol/keys/hybrid.ts";
import { type VerifyOptions, verifyBundle } from "../../../src/protocol/verification/verify_bundle.ts";

/** A party of a transaction. These four fields are signed. */
export type Party = {
  party_id: string;
  role: string;
  agent_id: string;
  agent_pub_key: HybridPublicKey;
};

/** The proof shows that the party's agent may act. It is not part of the receipt's signed bytes. */
export type ProvenParty = Party & {
  proof_bundle: ProofBundle;
};

export type PartySignature = {
  party_id: string;
  signature: HybridSignature;
};

/** An agreement of several agents, signed by each of them. The fields are those of wire format §4. */
export type TransactionReceipt = {
  version: number;
  transaction_id: string;
  /** Unix seconds. */
  created_at: number;
  terms_schema_uri: string;
  /** Base64 of the terms. */
  terms_canonical_json: string;
  parties: ProvenParty[];
  party_signatures: PartySignature[];
};

/** A receipt before it is signed, with the signed fields of its parties. */
export type TransactionFields = Omit<TransactionReceipt, "parties" | "party_signatures"> & {
  parties: readonly Party[];
};

/**
 * The published codes for refusing a transaction receipt. A missing or empty member has a code `missing_…`,
 * `no_parties` or `empty_party_id`. Other codes concern the match of parties and signatures, or a party's own
 * signature and proof.
 */
export type ReceiptViolationCode =
  | "version_mismatch"
  | "missing_transaction_id"
  | "missing_terms_schema_uri"
  | "missing_terms_canonical_json"
  | "no_parties"
  | "empty_party_id"
  | "duplicate_party_id"
  | "duplicate_party_signature"
  | "unknown_party_signature"
  | "missing_party_signature"
  | "party_agent_id_mismatch"
  | "party_agent_key_mismatch"
  | "party_bundle_invalid"
  | "party_signature_invalid";

export type ReceiptViolation = {
  code: ReceiptViolationCode;
  detail: string;
};

const decodeFields: Decoder<TransactionReceipt> = object({
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

/** Parses and decodes an untrusted receipt strictly (wire format §5). Throws `ProtocolError`. */
export function decodeTransactionReceipt(bytes: Uint8Array): TransactionReceipt {
  return decodeFields(parseJson(bytes));
}

/** Returns the bytes that every party signs. They contain neither proofs nor signatures. */
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

export async function signTransaction(
  fields: TransactionFields,
  partyId: string,
  agent: HybridPrivateKey,
): Promise<PartySignature> {
  return { party_id: partyId, signature: await signHybrid(agent, transactionReceiptSignBytes(fields)) };
}

/**
 * Returns why a receipt is not valid, or `undefined` if every party signed it once and every party's proof
 * verifies. Checks the parties in order, and for each party the proof before the signature. `optionsOf`
 * returns the options of `verifyBundle` for a party's proof.
 */
export async function verifyTransactionReceipt(
  receipt: TransactionReceipt,
  optionsOf: (party: ProvenParty) => VerifyOptions,
): Promise<ReceiptViolation | undefined> {
  const malformed = fieldViolation(receipt) ?? partyViolation(receipt) ?? pairingViolation(receipt);
  if (malformed !== undefined) return malformed;
  const bytes = transactionReceiptSignBytes(receipt);
  for (const party of receipt.parties) {
    const refused =
      (await proofViolation(party, optionsOf(party))) ?? (await signingViolation(party, receipt, bytes));
    if (refused !== undefined) return refused;
  }
  return undefined;
}

/** Returns a violation in the published wording: `<code>: <detail>`. */
export function receiptReasonOf({ code, detail }: ReceiptViolation): string {
  return `${code}: ${detail}`;
}

function fieldViolation(receipt: TransactionReceipt): ReceiptViolation | undefined {
  if (receipt.version !== PROTOCOL_VERSION) {
    return { code: "version_mismatch", detail: `unsupported version ${receipt.version}` };
  }
  const empty = (["transaction_id", "terms_schema_uri", "terms_canonical_json"] as const).find(
    (name) => receipt[name] === "",
  );
  return empty === undefined ? undefined : { code: `missing_${empty}`, detail: `${empty} must not be empty` };
}

function partyViolation({ parties }: TransactionReceipt): ReceiptViolation | undefined {
  if (parties.length === 0) return { code: "no_parties", detail: "receipt must list at least one party" };
  const listed = new Set<string>();
  for (const [index, { party_id: id }] of parties.entries()) {
    if (id === "") return { code: "empty_party_id", detail: `party ${index} has no party_id` };
    if (listed.has(id)) return { code: "duplicate_party_id", detail: `"${id}" listed more than once` };
    listed.add(id);
  }
  return undefined;
}

function pairingViolation({ parties, party_signatures }: TransactionReceipt): ReceiptViolation | undefined {
  const signed = new Set<string>();
  for (const [index, { party_id: id }] of party_signatures.entries()) {
    if (!parties.some(({ party_id }) => party_id === id)) {
      const detail = `signature ${index} references unknown party_id "${id}"`;
      return { code: "unknown_party_signature", detail };
    }
    if (signed.has(id)) {
      return { code: "duplicate_party_signature", detail: `party "${id}" has multiple signatures` };
    }
    signed.add(id);
  }
  const missing = parties.find(({ party_id }) => !signed.has(party_id));
  return missing === undefined
    ? undefined
    : { code: "missing_party_signature", detail: `party "${missing.party_id}" has no signature` };
}

async function signingViolation(
  { party_id, agent_pub_key }: Party,
  { party_signatures }: TransactionReceipt,
  bytes: Uint8Array,
): Promise<ReceiptViolation | undefined> {
  const found = party_signatures.find((candidate) => candidate.party_id === party_id) as PartySignature;
  const wrong = await signatureViolation(agent_pub_key, bytes, found.signature);
  return wrong === undefined
    ? undefined
    : { code: "party_signature_invalid", detail: `party "${party_id}": ${wrong}` };
}

async function proofViolation(
  party: ProvenParty,
  options: VerifyOptions,
): Promise<ReceiptViolation | undefined> {
  const { party_id, agent_id, agent_pub_key, proof_bundle } = party;
  const name = `party "${party_id}"`;
  if (agent_id !== proof_bundle.agent_id) {
    const detail = `${name} proof_bundle.agent_id="${proof_bundle.agent_id}" != party.agent_id="${agent_id}"`;
    return { code: "party_agent_id_mismatch", detail };
  }
  if (!equalPublicKeys(agent_pub_key, proof_bundle.agent_pub_key)) {
    return {
      code: "party_agent_key_mismatch",
      detail: `${name} proof_bundle.agent_pub_key != party.agent_pub_key`,
    };
  }
  const { valid, identity_status, error_reason } = await verifyBundle(proof_bundle, options);
  return valid
    ? undefined
    : { code: "party_bundle_invalid", detail: `${name} status=${identity_status} reason=${error_reason}` };
}

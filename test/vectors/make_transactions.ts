import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { independentCanonicalJson } from "../support/canonical_oracle.ts";
import { actor, entity } from "./actors.ts";
import { prove } from "./make_verify.ts";
import { NOW } from "./verify_cases.ts";

const [ROOT, AGENT] = [actor("human_root", 1), actor("agent", 2)];
const PROVEN = { agent_id: AGENT.id, agent_pub_key: AGENT.publicKey };

/**
 * A change to a receipt between two parties, and the published reason if the change makes the receipt
 * invalid.
 */
type ReceiptCase = { name: string; description: string; terms?: string; staleAt?: number; reason?: string };

const CASES: ReceiptCase[] = [
  {
    name: "own_transaction_receipt_awkward",
    description: "Parties that sort otherwise by UTF-16 unit than by code point.",
  },
  {
    name: "own_transaction_receipt_no_terms",
    description: "A receipt over nothing.",
    terms: "",
    reason: "missing_terms_canonical_json: terms_canonical_json must not be empty",
  },
  {
    name: "own_transaction_receipt_stale_proof",
    description: "The second party's proof is stale, and its signature broken: the proof is looked at first.",
    staleAt: NOW - 301,
    reason: 'party_bundle_invalid: party "\ue000" status=invalid reason=stale_challenge: ',
  },
];

/** Vectors of receipts between two parties, by name. */
export const TRANSACTION_VECTORS = CASES.map((each): [string, () => object] => [
  each.name,
  () => transactionVector(each),
]);

function transactionVector({ name, description, terms = "e30=", staleAt, reason }: ReceiptCase): object {
  const ids = ["😀", "\ue000"];
  const signed = { version: 1, transaction_id: "\u2028", created_at: NOW, terms_schema_uri: "urn:terms" };
  const party = (party_id: string) => ({ ...PROVEN, party_id, role: "\u2029" });
  const content = { ...signed, terms_canonical_json: terms };
  const bytes = Buffer.from(
    independentCanonicalJson({ ...content, parties: [...ids].reverse().map(party) }),
    "utf8",
  );
  const proofs = [prove({}), prove({ binding: { challenge_at: staleAt ?? NOW } })];
  const signatures = [bytes, staleAt === undefined ? bytes : challengeSignBytes(prove({}))].map(AGENT.sign);
  return {
    name,
    description,
    protocol_version: 1,
    kind: "transaction_receipt",
    entities: [ROOT, AGENT].map(entity),
    timestamps: { verifier_now: NOW },
    transaction_receipt: {
      ...content,
      parties: ids.map((id, index) => ({ ...party(id), proof_bundle: proofs[index] })),
      party_signatures: ids.map((party_id, index) => ({ party_id, signature: signatures[index] })),
    },
    expected: {
      receipt_sign_bytes_hex: bytes.toString("hex"),
      receipt_valid: reason === undefined,
      ...(reason === undefined ? {} : { receipt_error_reason: reason }),
    },
  };
}

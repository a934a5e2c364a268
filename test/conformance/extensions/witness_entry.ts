import { canonicalBytes } from "../../../src/protocol/encoding/canonical.ts";
import { BINDING_BYTES } from "../../../src/protocol/encoding/constants.ts";
import {
  base64,
  type Decoder,
  identifier,
  object,
  timestamp,
} from "../../../src/protocol/encoding/fields.ts";
import { parseJson } from "../../../src/protocol/encoding/json.ts";
import {
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSignature,
  signature,
} from "../../../src/protocol/keys/hybrid.ts";
import {
  CHAIN_START,
  chainLink,
  issuerViolation,
  type StatementViolation,
  sign,
  statementSignatureViolation,
} from "../../../src/protocol/statements/statement.ts";

/** One entry of a witness's append-only log. The fields are those of wire format §4. */
export type WitnessEntry = {
  /** Base64 of the previous entry's hash. In the first entry, 32 zero bytes. */
  prev_hash: string;
  /** Base64 of the witnessed bytes. */
  entry_data: string;
  /** Unix seconds. */
  timestamp: number;
  witness_id: string;
  signature: HybridSignature;
};

export type WitnessEntryFields = Omit<WitnessEntry, "signature">;

const decodeFields: Decoder<WitnessEntry> = object({
  prev_hash: base64(BINDING_BYTES),
  entry_data: base64(),
  timestamp,
  witness_id: identifier,
  signature,
});

/** Parses and decodes an untrusted entry strictly (wire format §5). Throws `ProtocolError`. */
export function decodeWitnessEntry(bytes: Uint8Array): WitnessEntry {
  return decodeFields(parseJson(bytes));
}

/** Returns the bytes that the witness signs: canonical JSON of all fields except the signature. */
export function witnessEntrySignBytes(fields: WitnessEntryFields): Uint8Array {
  const { prev_hash, entry_data, timestamp, witness_id } = fields;
  return canonicalBytes({ entry_data, prev_hash, timestamp, witness_id });
}

export function issueWitnessEntry(
  fields: Omit<WitnessEntryFields, "prev_hash">,
  witness: HybridPrivateKey,
  previous?: WitnessEntryFields,
): Promise<WitnessEntry> {
  return sign({ ...fields, prev_hash: expectedLink(previous) }, witnessEntrySignBytes, witness);
}

/** Returns the reason why an entry is not from `witness`, or `undefined` if it is. */
export async function verifyWitnessEntry(
  entry: WitnessEntry,
  witness: HybridPublicKey,
): Promise<StatementViolation | undefined> {
  return (
    issuerViolation(entry.witness_id, witness) ??
    (await statementSignatureViolation(witness, witnessEntrySignBytes(entry), entry.signature))
  );
}

/** Like {@link verifyWitnessEntry}, for a complete log, in which each entry contains the previous hash. */
export async function verifyWitnessLog(
  entries: readonly WitnessEntry[],
  witness: HybridPublicKey,
): Promise<StatementViolation | undefined> {
  for (const [index, entry] of entries.entries()) {
    if (entry.prev_hash !== expectedLink(entries[index - 1])) {
      return { code: "broken_log", detail: `entry ${index} does not follow the one before it` };
    }
    const violation = await verifyWitnessEntry(entry, witness);
    if (violation !== undefined) return violation;
  }
  return undefined;
}

function expectedLink(previous: WitnessEntryFields | undefined): string {
  return previous === undefined ? CHAIN_START : chainLink(witnessEntrySignBytes(previous));
}

import { z } from "zod";
import { decodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { type JsonObject, plainJson } from "../../src/protocol/encoding/json.ts";
import { type HybridPublicKey, type HybridSignature, keyId } from "../../src/protocol/keys/hybrid.ts";
import {
  decodeKeyRotation,
  type KeyRotationStatement,
  keyRotationSignBytes,
  rotationReasonOf,
  verifyKeyRotation,
} from "../../src/protocol/statements/key_rotation.ts";
import {
  decodeRevocationList,
  revocationListSignBytes,
  verifyRevocationList,
} from "../../src/protocol/statements/revocation_list.ts";
import {
  decodeVerificationReceipt,
  verificationReceiptSignBytes,
  verifyVerificationReceipt,
} from "../../src/protocol/statements/verification_receipt.ts";
import {
  decodeRevocationPush,
  revocationPushSignBytes,
  verifyRevocationPush,
} from "./extensions/revocation_push.ts";
import {
  decodeTransactionReceipt,
  receiptReasonOf,
  type TransactionReceipt,
  transactionReceiptSignBytes,
  verifyTransactionReceipt,
} from "./extensions/transaction_receipt.ts";
import { decodeWitnessEntry, verifyWitnessEntry, witnessEntrySignBytes } from "./extensions/witness_entry.ts";
import { type Expectations, keyOf, type Vector } from "./vector.ts";

/** Faults that strict decoding detects first, although verification has a wording for them too (§5). */
const DECODED_AWAY = ["unknown key rotation reason", "missing_transaction_id", "empty_party_id"];

/** A kind of statement with one signature. `prefix` is set if the expectations do not begin with the name. */
type SignedKind<T> = {
  member: string;
  prefix?: string;
  decode: (bytes: Uint8Array) => T;
  signerOf: (statement: T) => string;
  signBytes: (statement: T) => Uint8Array;
  faultOf: (statement: T, signer: HybridPublicKey) => Promise<unknown>;
};

function checkSigned<T extends { signature: HybridSignature }>(kind: SignedKind<T>) {
  const { prefix = kind.member } = kind;
  return async (vector: Vector, document: JsonObject, expect: Expectations): Promise<void> => {
    const statement = kind.decode(bytesOf(document, kind.member));
    const fault = await kind.faultOf(statement, keyOf(vector, kind.signerOf(statement)));
    const expected = vector.expected[`${prefix}_sign_bytes_hex`];
    expect.bytes("signed bytes", expected, () => kind.signBytes(statement));
    expectSignature(vector, expect, `${prefix}_signature`, statement.signature);
    expect.equal("verifies", declared(vector), fault === undefined);
  };
}

export const checkRevocationList = checkSigned({
  member: "revocation_list",
  prefix: "revocation",
  decode: (bytes) => decodeRevocationList(bytes),
  signerOf: ({ issuer_id }) => issuer_id,
  signBytes: revocationListSignBytes,
  faultOf: verifyRevocationList,
});

export const checkRevocationPush = checkSigned({
  member: "revocation_push",
  decode: decodeRevocationPush,
  signerOf: ({ issuer_id }) => issuer_id,
  signBytes: revocationPushSignBytes,
  faultOf: (push, issuer) => verifyRevocationPush(push, issuer),
});

export const checkWitnessEntry = checkSigned({
  member: "witness_entry",
  decode: decodeWitnessEntry,
  signerOf: ({ witness_id }) => witness_id,
  signBytes: witnessEntrySignBytes,
  faultOf: verifyWitnessEntry,
});

export const checkVerificationReceipt = checkSigned({
  member: "verification_receipt",
  decode: decodeVerificationReceipt,
  signerOf: ({ verifier_pub }) => keyId(verifier_pub),
  signBytes: verificationReceiptSignBytes,
  faultOf: verifyVerificationReceipt,
});

/** Checks the signed bytes and both signatures of a key rotation. */
export async function checkKeyRotation(
  vector: Vector,
  document: JsonObject,
  expect: Expectations,
): Promise<void> {
  const statement = plainJson(document.key_rotation ?? null) as KeyRotationStatement;
  const reason = await refusalOf(async () => {
    const fault = await verifyKeyRotation(decodeKeyRotation(bytesOf(document, "key_rotation")));
    return fault && rotationReasonOf(fault);
  });
  expect.bytes("signed bytes", vector.expected.key_rotation_sign_bytes_hex, () =>
    keyRotationSignBytes(statement),
  );
  expectSignature(vector, expect, "key_rotation_signature_old", statement.signature_old);
  expectSignature(vector, expect, "key_rotation_signature_new", statement.signature_new);
  expect.equal("verifies", declared(vector), reason === undefined);
  compareReason(expect, "key_rotation_error_reason", vector, reason);
}

/** Checks the signed bytes of a transaction receipt, whether it is valid, and the reason if it is not. */
export async function checkTransactionReceipt(
  vector: Vector,
  document: JsonObject,
  expect: Expectations,
): Promise<void> {
  const { expected, timestamps } = vector;
  const receipt = plainJson(document.transaction_receipt ?? null) as TransactionReceipt;
  const now = timestamps.verifier_now ?? receipt.created_at;
  const reason = await refusalOf(async () => {
    const decoded = decodeTransactionReceipt(bytesOf(document, "transaction_receipt"));
    const fault = await verifyTransactionReceipt(decoded, () => ({ now }));
    return fault && receiptReasonOf(fault);
  });
  expect.bytes("signed bytes", expected.receipt_sign_bytes_hex, () => transactionReceiptSignBytes(receipt));
  expect.equal("valid", expected.receipt_valid, reason === undefined);
  compareReason(expect, "receipt_error_reason", vector, reason);
}

/** Returns why decoding or verification refuses a document, if one of them does. */
async function refusalOf(
  verify: () => Promise<string | undefined>,
): Promise<string | Unreadable | undefined> {
  try {
    return await verify();
  } catch (error) {
    if (error instanceof ProtocolError) return { unreadable: error.message };
    throw error;
  }
}

type Unreadable = { unreadable: string };

function compareReason(
  expect: Expectations,
  name: string,
  { expected }: Vector,
  got: string | Unreadable | undefined,
): void {
  const reason = z.string().optional().parse(expected[name]);
  if (reason === undefined) return;
  if (typeof got !== "object") {
    expect.reason(name, reason, got ?? "");
  } else if (!DECODED_AWAY.some((fault) => reason.startsWith(`${fault}: `))) {
    expect.reason(name, reason, got.unreadable);
  }
}

/**
 * Encodes a part of a vector again. This may change the notation of floats, but only bundles contain floats,
 * and no part is a bundle.
 */
function bytesOf(document: JsonObject, part: string): Uint8Array {
  return Buffer.from(JSON.stringify(plainJson(document[part] ?? null)));
}

/** Returns whether the vector's signatures must verify, which is the default. */
function declared({ expected }: Vector): boolean {
  return !Object.entries(expected).some(([name, value]) => name.endsWith("verify_ok") && value === false);
}

function expectSignature(
  { expected }: Vector,
  expect: Expectations,
  prefix: string,
  signature: HybridSignature,
): void {
  for (const half of ["ed25519", "ml_dsa_65"] as const) {
    const hex = expected[`${prefix}_${half}_hex`];
    if (hex !== undefined) expect.bytes(`${prefix} ${half}`, hex, () => decodeBase64(signature[half]));
  }
}

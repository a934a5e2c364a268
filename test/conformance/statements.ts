import { z } from "zod";
import { decodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { type JsonObject, plainJson } from "../../src/protocol/encoding/json.ts";
import { type HybridSignature, keyId } from "../../src/protocol/keys/hybrid.ts";
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

/** Faults that verification has published words for and strict decoding sees first (wire format §5). */
const DECODED_AWAY = ["unknown key rotation reason", "missing_transaction_id", "empty_party_id"];

/** Signed bytes and signature of a revocation list. */
export async function checkRevocationList(
  vector: Vector,
  document: JsonObject,
  expect: Expectations,
): Promise<void> {
  const list = decodeRevocationList(bytesOf(document, "revocation_list"));
  const fault = await verifyRevocationList(list, keyOf(vector, list.issuer_id));
  expect.bytes("signed bytes", vector.expected.revocation_sign_bytes_hex, () =>
    revocationListSignBytes(list),
  );
  expectSignature(vector, expect, "revocation_signature", list.signature);
  expect.equal("verifies", declared(vector), fault === undefined);
}

/** Signed bytes and signature of a revocation push. */
export async function checkRevocationPush(
  vector: Vector,
  document: JsonObject,
  expect: Expectations,
): Promise<void> {
  const push = decodeRevocationPush(bytesOf(document, "revocation_push"));
  const fault = await verifyRevocationPush(push, keyOf(vector, push.issuer_id));
  expect.bytes("signed bytes", vector.expected.revocation_push_sign_bytes_hex, () =>
    revocationPushSignBytes(push),
  );
  expectSignature(vector, expect, "revocation_push_signature", push.signature);
  expect.equal("verifies", declared(vector), fault === undefined);
}

/** Signed bytes and signature of a witness entry. */
export async function checkWitnessEntry(
  vector: Vector,
  document: JsonObject,
  expect: Expectations,
): Promise<void> {
  const entry = decodeWitnessEntry(bytesOf(document, "witness_entry"));
  const fault = await verifyWitnessEntry(entry, keyOf(vector, entry.witness_id));
  expect.bytes("signed bytes", vector.expected.witness_entry_sign_bytes_hex, () =>
    witnessEntrySignBytes(entry),
  );
  expectSignature(vector, expect, "witness_entry_signature", entry.signature);
  expect.equal("verifies", declared(vector), fault === undefined);
}

/** Signed bytes and both signatures of a key rotation. */
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

/** Signed bytes and signature of a verification receipt. */
export async function checkVerificationReceipt(
  vector: Vector,
  document: JsonObject,
  expect: Expectations,
): Promise<void> {
  const receipt = decodeVerificationReceipt(bytesOf(document, "verification_receipt"));
  const fault = await verifyVerificationReceipt(receipt, keyOf(vector, keyId(receipt.verifier_pub)));
  expect.bytes("signed bytes", vector.expected.verification_receipt_sign_bytes_hex, () =>
    verificationReceiptSignBytes(receipt),
  );
  expectSignature(vector, expect, "verification_receipt_signature", receipt.signature);
  expect.equal("verifies", declared(vector), fault === undefined);
}

/** Signed bytes of a transaction receipt, whether it is valid, and why not. */
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

/** Why a document is refused, by decoding or by verification; nothing when it is not. */
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

/** Compares a reason with the vector's own, if it has one. */
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
 * A part of a vector as a document of its own. Numbers keep their value; only bundles carry floats, and those
 * are not re-read here.
 */
function bytesOf(document: JsonObject, part: string): Uint8Array {
  return Buffer.from(JSON.stringify(plainJson(document[part] ?? null)));
}

/** Whether the vector's signatures are to verify: they are, unless it says otherwise. */
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

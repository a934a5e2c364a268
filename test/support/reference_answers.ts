import { hash } from "node:crypto";
import type { ConstraintContext } from "../../src/protocol/constraints/evaluate_constraints.ts";
import { delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { bundleHash, decodeProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import type { HybridPublicKey } from "../../src/protocol/keys/hybrid.ts";
import {
  decodeKeyRotation,
  keyRotationSignBytes,
  rotationReasonOf,
  verifyKeyRotation,
} from "../../src/protocol/statements/key_rotation.ts";
import {
  decodeRevocationList,
  revocationListSignBytes,
  verifyRevocationList,
} from "../../src/protocol/statements/revocation_list.ts";
import { chainLink } from "../../src/protocol/statements/statement.ts";
import {
  decodeVerificationReceipt,
  verificationReceiptSignBytes,
  verifyVerificationReceipt,
} from "../../src/protocol/statements/verification_receipt.ts";
import { type VerifyOptions, verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";
import {
  decodeRevocationPush,
  revocationPushSignBytes,
  verifyRevocationPush,
} from "../conformance/extensions/revocation_push.ts";
import {
  decodeSessionToken,
  sessionTokenSignBytes,
  sessionTokenViolation,
} from "../conformance/extensions/session_token.ts";
import {
  decodeTransactionReceipt,
  receiptReasonOf,
  transactionReceiptSignBytes,
  verifyTransactionReceipt,
} from "../conformance/extensions/transaction_receipt.ts";
import {
  decodeWitnessEntry,
  verifyWitnessEntry,
  witnessEntrySignBytes,
} from "../conformance/extensions/witness_entry.ts";

/** `invocations` is the verifier's counter, and `revoked` its list of revoked certificates. */
export type BundleOptions = Pick<VerifyOptions, "now" | "required_scope" | "session_context" | "stream"> & {
  context?: Omit<ConstraintContext, "invocations"> & { invocations?: number };
  revoked?: string[];
};

/** A question about a document that both implementations answer. */
export type Question = { name: string; document: string } & (
  | { kind: "bundle"; options: BundleOptions }
  | { kind: "verification_receipt"; key: HybridPublicKey }
  | { kind: "session_token"; secret: string; now: number }
  | { kind: "key_rotation" }
  | { kind: "transaction_receipt"; now: number }
  | { kind: "revocation_list" | "revocation_push" | "witness_entry"; key: HybridPublicKey }
);

/** Returns this implementation's answer in the format of the reference implementation. */
export async function ownAnswer(question: Question): Promise<Record<string, unknown>> {
  try {
    return await answer(question, Buffer.from(question.document));
  } catch (error) {
    if (error instanceof ProtocolError) return { refused: error.message };
    throw error;
  }
}

async function answer(question: Question, document: Buffer): Promise<Record<string, unknown>> {
  switch (question.kind) {
    case "bundle":
      return bundleAnswer(document, question.options);
    case "verification_receipt": {
      const receipt = decodeVerificationReceipt(document);
      const signed = verificationReceiptSignBytes(receipt);
      const fault = await verifyVerificationReceipt(receipt, question.key);
      return { signed: digest(signed), valid: fault === undefined, link: hex(chainLink(signed)) };
    }
    case "session_token": {
      const token = decodeSessionToken(document);
      const reason = sessionTokenViolation(token, Buffer.from(question.secret, "base64"), question.now) ?? "";
      return { signed: digest(sessionTokenSignBytes(token)), reason };
    }
    case "key_rotation": {
      const statement = decodeKeyRotation(document);
      const fault = await verifyKeyRotation(statement);
      return {
        signed: digest(keyRotationSignBytes(statement)),
        reason: fault ? rotationReasonOf(fault) : "",
      };
    }
    case "transaction_receipt": {
      const receipt = decodeTransactionReceipt(document);
      const fault = await verifyTransactionReceipt(receipt, () => ({ now: question.now }));
      const reason = fault ? receiptReasonOf(fault) : "";
      return { signed: digest(transactionReceiptSignBytes(receipt)), reason };
    }
    case "revocation_list": {
      const list = decodeRevocationList(document);
      return stated(revocationListSignBytes(list), await verifyRevocationList(list, question.key));
    }
    case "revocation_push": {
      const push = decodeRevocationPush(document);
      return stated(revocationPushSignBytes(push), await verifyRevocationPush(push, question.key));
    }
    case "witness_entry": {
      const entry = decodeWitnessEntry(document);
      return stated(witnessEntrySignBytes(entry), await verifyWitnessEntry(entry, question.key));
    }
  }
}

async function bundleAnswer(document: Buffer, options: BundleOptions): Promise<Record<string, unknown>> {
  const bundle = decodeProofBundle(document);
  const { context: { invocations, ...context } = {}, revoked, ...others } = options;
  const result = await verifyBundle(bundle, {
    ...others,
    context: { ...context, invocations: () => invocations },
    revocation: revoked && (({ cert_id }) => revoked.includes(cert_id)),
  });
  return {
    hash: Buffer.from(bundleHash(bundle)).toString("hex"),
    signed: bundle.delegations.map((each) => digest(delegationSignBytes(each))),
    challenge: Buffer.from(challengeSignBytes(bundle)).toString("hex"),
    valid: result.valid,
    identity_status: result.identity_status,
    human_id: result.human_id ?? "",
    agent_id: result.agent_id ?? "",
    granted_scope: result.granted_scope ?? [],
    reason: result.error_reason ?? "",
  };
}

function stated(signed: Uint8Array, fault: object | undefined): Record<string, unknown> {
  return { signed: digest(signed), valid: fault === undefined };
}

function digest(bytes: Uint8Array): string {
  return hash("sha256", bytes);
}

function hex(base64: string): string {
  return Buffer.from(base64, "base64").toString("hex");
}

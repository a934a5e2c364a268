import { decodeDelegationCert, delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import {
  decodeKeyRotation,
  keyRotationSignBytes,
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
} from "../conformance/extensions/revocation_push.ts";
import {
  decodeSessionToken,
  sessionTokenSignBytes,
  sessionTokenViolation,
} from "../conformance/extensions/session_token.ts";
import {
  decodeTransactionReceipt,
  transactionReceiptSignBytes,
  verifyTransactionReceipt,
} from "../conformance/extensions/transaction_receipt.ts";
import {
  decodeWitnessEntry,
  verifyWitnessEntry,
  witnessEntrySignBytes,
} from "../conformance/extensions/witness_entry.ts";
import { NOW, ROOT } from "../support/chains.ts";
import type { Target } from "./loop.ts";
import { decode, demand, parse, signatureTexts } from "./oracles.ts";
import { type Genuine, SESSION_SECRET } from "./seeds.ts";

type Kind<T> = {
  decoder: (bytes: Uint8Array) => T;
  signed: (object: T) => Uint8Array;
  fault: (object: T) => unknown;
};

/**
 * Returns targets for the strict parser, and for each decoder followed by verification. A document must not
 * verify unless its signed bytes are those of a seed.
 */
export function decoderTargets(genuine: Genuine): Target[] {
  const all = Object.values(genuine).flat();
  return [
    { name: "parser", seeds: all, run: parse },
    target("certificate", genuine.certificate, {
      decoder: decodeDelegationCert,
      signed: delegationSignBytes,
      fault: async (certificate) =>
        !(await verifyHybrid(ROOT.publicKey, delegationSignBytes(certificate), certificate.signature)),
    }),
    target("revocation_list", genuine.revocationList, {
      decoder: decodeRevocationList,
      signed: revocationListSignBytes,
      fault: (list) => verifyRevocationList(list, ROOT.publicKey),
    }),
    target("revocation_push", genuine.revocationPush, {
      decoder: decodeRevocationPush,
      signed: revocationPushSignBytes,
      fault: (push) => verifyRevocationPush(push, ROOT.publicKey),
    }),
    target("key_rotation", genuine.keyRotation, {
      decoder: decodeKeyRotation,
      signed: keyRotationSignBytes,
      fault: verifyKeyRotation,
    }),
    target("witness_entry", genuine.witnessEntry, {
      decoder: decodeWitnessEntry,
      signed: witnessEntrySignBytes,
      fault: (entry) => verifyWitnessEntry(entry, ROOT.publicKey),
    }),
    target("session_token", genuine.sessionToken, {
      decoder: decodeSessionToken,
      signed: sessionTokenSignBytes,
      fault: (token) => sessionTokenViolation(token, SESSION_SECRET, NOW),
    }),
    target("transaction_receipt", genuine.transactionReceipt, {
      decoder: decodeTransactionReceipt,
      signed: transactionReceiptSignBytes,
      fault: (receipt) => verifyTransactionReceipt(receipt, () => ({ now: NOW })),
    }),
    target("verification_receipt", genuine.verificationReceipt, {
      decoder: decodeVerificationReceipt,
      signed: verificationReceiptSignBytes,
      fault: (receipt) => verifyVerificationReceipt(receipt, ROOT.publicKey),
    }),
  ];
}

function target<T>(name: string, seeds: readonly Uint8Array[], { decoder, signed, fault }: Kind<T>): Target {
  const genuine = seeds.map(decoder);
  const signedBytes = new Set(genuine.map((object) => hex(signed(object))));
  const signatures = new Set(genuine.flatMap(signatureTexts));
  return {
    name,
    seeds,
    run: async (input) => {
      const decoded = decode(decoder, input);
      if (typeof decoded === "string") return decoded;
      const found = await fault(decoded.object);
      if (found !== undefined && found !== false) return `unverified ${codeOf(found)}`;
      demand(signedBytes.has(hex(signed(decoded.object))), `a ${name} verifies that nobody signed`);
      demand(
        signatureTexts(decoded.object).every((text) => signatures.has(text)),
        `a ${name} verifies with a signature that nobody made`,
      );
      return "verified";
    },
  };
}

function codeOf(fault: unknown): string {
  return typeof fault === "object" && fault !== null && "code" in fault ? String(fault.code) : String(fault);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

import {
  type DelegationCert,
  type DelegationFields,
  delegationSignBytes,
} from "../../src/protocol/documents/certificate.ts";
import type { ChallengeBinding } from "../../src/protocol/documents/challenge.ts";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { encodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { PROTOCOL_VERSION } from "../../src/protocol/encoding/constants.ts";
import {
  type HybridPrivateKey,
  type HybridPublicKey,
  importSeeds,
  keyId,
  publicKeyOf,
  signHybrid,
} from "../../src/protocol/keys/hybrid.ts";
import { presentProof } from "../../src/protocol/statements/issuing.ts";

/** Second at which everything in these chains happens, unless it says otherwise. */
export const NOW = 1_800_000_000;

/**
 * A key with its identifier, made from a number: the same number gives the same key. TEST KEYS, known to
 * everybody.
 */
export type TestKey = {
  privateKey: HybridPrivateKey;
  publicKey: HybridPublicKey;
  id: string;
};

/**
 * The test key of a number from 1 to 255: Ed25519 seed of that byte repeated, ML-DSA-65 seed of its
 * complement repeated.
 */
export function testKey(number: number): TestKey {
  const privateKey = importSeeds({
    ed25519: Buffer.alloc(32, number),
    ml_dsa_65: Buffer.alloc(32, 255 - number),
  });
  const publicKey = publicKeyOf(privateKey);
  return { privateKey, publicKey, id: keyId(publicKey) };
}

/** The key that a chain starts from, and the one that ends it. */
export const ROOT = testKey(1);
export const AGENT = testKey(2);

/** Fields of a certificate from one key to another, valid for an hour around {@link NOW}. */
export function fields(
  issuer: TestKey,
  subject: TestKey,
  changes: Partial<DelegationFields> = {},
): DelegationFields {
  return {
    cert_id: `cert-${issuer.id.slice(0, 6)}-${subject.id.slice(0, 6)}`,
    version: PROTOCOL_VERSION,
    issuer_id: issuer.id,
    issuer_pub_key: issuer.publicKey,
    subject_id: subject.id,
    subject_pub_key: subject.publicKey,
    scope: ["meeting:attend"],
    constraints: [],
    issued_at: NOW - 1800,
    expires_at: NOW + 1800,
    ...changes,
  };
}

/** A signed certificate. Signs whatever it is given, issuable or not. */
export async function certify(
  issuer: TestKey,
  subject: TestKey,
  changes: Partial<DelegationFields> = {},
): Promise<DelegationCert> {
  const unsigned = fields(issuer, subject, changes);
  return { ...unsigned, signature: await signHybrid(issuer.privateKey, delegationSignBytes(unsigned)) };
}

/**
 * A chain of `changes.length` certificates, leaf first, from {@link ROOT} down to {@link AGENT}; all but the
 * leaf may delegate. The nth change applies to the nth certificate.
 */
export async function chain(...changes: Partial<DelegationFields>[]): Promise<DelegationCert[]> {
  const keys = [AGENT, ...changes.slice(1).map((_, index) => testKey(10 + index)), ROOT];
  return Promise.all(
    changes.map((change, index) => {
      const [subject, issuer] = [keys[index], keys[index + 1]];
      if (subject === undefined || issuer === undefined) {
        throw new Error("a chain has one key more than certificates");
      }
      const scope = index === 0 ? ["meeting:attend"] : ["meeting:attend", "identity:delegate"];
      return certify(issuer, subject, { cert_id: `cert-${index}`, scope, ...change });
    }),
  );
}

/** A challenge of one byte repeated, answered at {@link NOW}. */
export function binding(changes: Partial<ChallengeBinding> = {}): ChallengeBinding {
  return { challenge: bytes32(7), challenge_at: NOW, ...changes };
}

/** The agent's proof under a chain of as many certificates as changes; one without changes by default. */
export async function prove(
  changes: Partial<DelegationFields>[] = [{}],
  challenge: Partial<ChallengeBinding> = {},
): Promise<ProofBundle> {
  return presentProof(AGENT.privateKey, await chain(...changes), binding(challenge));
}

/** Base64 of 32 times the same byte. */
export function bytes32(byte: number): string {
  return encodeBase64(Buffer.alloc(32, byte));
}

/** A document as it travels. */
export function encode(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}

/**
 * The same text with the last base64 character before the padding changed in a used bit, so that it stays
 * canonical.
 */
export function tamper(text: string): string {
  const bytes = Buffer.from(text, "base64");
  bytes[0] = (bytes[0] ?? 0) ^ 1;
  return encodeBase64(bytes);
}

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

/** The default time in these chains, in Unix seconds. */
export const NOW = 1_800_000_000;

/** A key that is derived from a number. TEST KEYS: their private halves are public. */
export type TestKey = {
  privateKey: HybridPrivateKey;
  publicKey: HybridPublicKey;
  id: string;
};

/** `number` is 1 to 255. The Ed25519 seed repeats that byte, and the ML-DSA-65 seed its complement. */
export function testKey(number: number): TestKey {
  const privateKey = importSeeds({
    ed25519: Buffer.alloc(32, number),
    ml_dsa_65: Buffer.alloc(32, 255 - number),
  });
  const publicKey = publicKeyOf(privateKey);
  return { privateKey, publicKey, id: keyId(publicKey) };
}

export const ROOT = testKey(1);
export const AGENT = testKey(2);

/** Returns the fields of a certificate from one key to another, valid for an hour around {@link NOW}. */
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

/** Signs a certificate without checks, even a certificate that may not be issued. */
export async function certify(
  issuer: TestKey,
  subject: TestKey,
  changes: Partial<DelegationFields> = {},
): Promise<DelegationCert> {
  const unsigned = fields(issuer, subject, changes);
  return { ...unsigned, signature: await signHybrid(issuer.privateKey, delegationSignBytes(unsigned)) };
}

/**
 * Returns a chain from {@link ROOT} to {@link AGENT}, the agent's certificate first, with one certificate for
 * each change. Every certificate except the agent's may delegate.
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

/** Returns a binding to a challenge of one repeated byte. The challenge was answered at {@link NOW}. */
export function binding(changes: Partial<ChallengeBinding> = {}): ChallengeBinding {
  return { challenge: bytes32(7), challenge_at: NOW, ...changes };
}

/** Returns the agent's proof over a {@link chain}, by default of one unchanged certificate. */
export async function prove(
  changes: Partial<DelegationFields>[] = [{}],
  challenge: Partial<ChallengeBinding> = {},
): Promise<ProofBundle> {
  return presentProof(AGENT.privateKey, await chain(...changes), binding(challenge));
}

export function bytes32(byte: number): string {
  return encodeBase64(Buffer.alloc(32, byte));
}

export function encode(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}

/** Changes one bit in the first byte of base64 text. The result remains canonical base64. */
export function tamper(text: string): string {
  const bytes = Buffer.from(text, "base64");
  bytes[0] = (bytes[0] ?? 0) ^ 1;
  return encodeBase64(bytes);
}

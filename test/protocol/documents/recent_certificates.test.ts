import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type DelegationCert, decodeDelegationCert } from "../../../src/protocol/documents/certificate.ts";
import { createRecentCertificates } from "../../../src/protocol/documents/certificate_memory.ts";
import { bundleHash } from "../../../src/protocol/documents/proof_bundle.ts";
import { canonicalJson } from "../../../src/protocol/encoding/canonical.ts";
import { createCertificateMemory, verifyBundle } from "../../../src/protocol/verification/verify_bundle.ts";
import { code, options } from "../../support/answers.ts";
import { AGENT, certify, encode, prove, ROOT, tamper } from "../../support/chains.ts";
import { bindings, certificates } from "../../support/proof_arbitraries.ts";

const AMPLE = 1_000_000;

async function leafOf(changes = {}): Promise<DelegationCert> {
  return certify(ROOT, AGENT, changes);
}

describe("a stored certificate", () => {
  test("matches the same value in any spelling, and matches no other value", async () => {
    await fc.assert(
      fc.asyncProperty(
        certificates,
        certificates,
        fc.array(fc.nat(), { maxLength: 40 }),
        async (own, other, bits) => {
          const certificate = await leafOf(own);
          const recent = createRecentCertificates(AMPLE);
          recent.add(certificate);
          const document = encode(certificate);
          const spelled = Object.fromEntries(
            Object.entries(certificate).reverse(),
          ) as unknown as DelegationCert;
          const changedFields = Object.entries(other).map(([name, value]) => ({
            ...certificate,
            [name]: value,
          }));
          const candidates = [
            decodeDelegationCert(document),
            spelled,
            ...changedFields,
            ...bits.flatMap((bit) => decodedWithBitFlipped(document, bit)),
          ];
          const text = canonicalJson(certificate);
          for (const candidate of candidates) {
            const isSame = canonicalJson(candidate) === text;
            expect(recent.bytesOf(candidate)?.toString()).toBe(isSame ? text : undefined);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  test("matches only if all its fields and both signature halves are equal", async () => {
    const certificate = await leafOf({ constraints: [{ type: "max_speed_mps", max_mps: 3 }] });
    const recent = createRecentCertificates(AMPLE);
    recent.add(certificate);
    const { signature, issuer_pub_key: key } = certificate;
    const changes: Partial<DelegationCert>[] = [
      { cert_id: "x" },
      { version: 2 },
      { issuer_id: AGENT.id },
      { issuer_pub_key: { ...key, ed25519: tamper(key.ed25519) } },
      { issuer_pub_key: { ...key, ml_dsa_65: tamper(key.ml_dsa_65) } },
      { subject_id: ROOT.id },
      { subject_pub_key: ROOT.publicKey },
      { scope: [] },
      { scope: [...certificate.scope, "files:read"] },
      { constraints: [] },
      { constraints: [{ type: "max_speed_mps", max_mps: 4 }] },
      { issued_at: certificate.issued_at + 1 },
      { expires_at: certificate.expires_at + 1 },
      { signature: { ...signature, ed25519: tamper(signature.ed25519) } },
      { signature: { ...signature, ml_dsa_65: tamper(signature.ml_dsa_65) } },
      { other: 1 } as Partial<DelegationCert>,
    ];
    expect(recent.bytesOf({ ...certificate })?.toString()).toBe(canonicalJson(certificate));
    for (const change of changes) expect(recent.bytesOf({ ...certificate, ...change })).toBeUndefined();
  });

  test("stays unchanged if the caller changes the original later", async () => {
    const certificateMemory = createCertificateMemory();
    const bundle = await prove();
    expect(await code(bundle, { certificateMemory })).toBe("valid");
    bundle.delegations[0]?.scope.push("files:read");
    expect(await code(bundle, { certificateMemory })).toBe("bad_signature");
    bundle.delegations[0]?.scope.pop();
    expect(await code(bundle, { certificateMemory })).toBe("valid");
  });

  test("does not change the hash of a bundle", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(certificates, { minLength: 1, maxLength: 3 }),
        bindings,
        async (changes, binding) => {
          const bundle = { ...(await prove(changes, binding)), agent_id: '"delegations":[]' };
          const recent = createRecentCertificates(AMPLE);
          const plain = Buffer.from(bundleHash(bundle)).toString("hex");
          const shape = { session_context: "", stream_id: "", stream_seq: 0, ...bundle };
          expect(plain).toBe(await sha256(canonicalJson(shape)));
          for (const certificate of bundle.delegations) {
            recent.add(certificate);
            expect(Buffer.from(bundleHash(bundle, recent)).toString("hex")).toBe(plain);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  test("gets evicted if all certificates together are too long, and is never stored if its own length is too large", async () => {
    const [first, second, third] = (await Promise.all(
      ["a", "b", "c"].map((cert_id) => leafOf({ cert_id })),
    )) as [DelegationCert, DelegationCert, DelegationCert];
    const { length } = canonicalJson(first);
    const recent = createRecentCertificates(2.5 * 2 * length);
    for (const certificate of [first, second, third]) recent.add(certificate);
    const kept = [first, second, third].map((certificate) => recent.bytesOf(certificate) !== undefined);
    expect(kept).toEqual([false, true, true]);
    const small = createRecentCertificates(2 * length - 1);
    small.add(first);
    expect(small.bytesOf(first)).toBeUndefined();
  });
});

describe("verification with a cache of recent certificates", () => {
  test("stores a certificate that was checked or found by its hash, but never a certificate with a bad signature", async () => {
    const certificateMemory = createCertificateMemory();
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    const forged = { ...leaf, signature: { ...leaf.signature, ml_dsa_65: tamper(leaf.signature.ml_dsa_65) } };
    expect(await code({ ...bundle, delegations: [forged] }, { certificateMemory })).toBe("bad_signature");
    expect(certificateMemory.recent?.bytesOf(forged)).toBeUndefined();
    expect(await code(bundle, { certificateMemory })).toBe("valid");
    expect(certificateMemory.recent?.bytesOf(leaf)).toBeDefined();

    const empty = { ...certificateMemory, recent: createRecentCertificates(AMPLE), add: () => expect.fail() };
    expect(await code(bundle, { certificateMemory: empty })).toBe("valid");
    expect(empty.recent.bytesOf(leaf)).toBeDefined();
  });

  test("accepts a certificate with an extra member that has no canonical form, without storing it", async () => {
    const certificateMemory = createCertificateMemory();
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    const odd = { ...bundle, delegations: [{ ...leaf, note: () => "no JSON" }] };
    expect((await verifyBundle(odd, options({ certificateMemory }))).error_reason).toBeUndefined();
    expect(certificateMemory.recent?.bytesOf(leaf)).toBeUndefined();
  });
});

function decodedWithBitFlipped(document: Uint8Array, bit: number): DelegationCert[] {
  const changed = Uint8Array.from(document);
  const at = Math.floor(bit / 8) % changed.length;
  changed[at] = (changed[at] ?? 0) ^ (1 << (bit % 8));
  try {
    return [decodeDelegationCert(changed)];
  } catch {
    return [];
  }
}

async function sha256(text: string): Promise<string> {
  return Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(text))).toString("hex");
}

import { describe, expect, test } from "vitest";
import type { DelegationCert, DelegationFields } from "../../../src/protocol/documents/certificate.ts";
import { createCertificateMemory } from "../../../src/protocol/verification/verify_bundle.ts";
import { code } from "../../support/answers.ts";
import { NOW, prove, tamper } from "../../support/chains.ts";

describe("a certificate in the memory", () => {
  test("passes without a signature check only if its bytes and its signature are exactly the same", async () => {
    const certificateMemory = createCertificateMemory(10);
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    expect(await code(bundle, { certificateMemory })).toBe("valid");
    expect(await code(bundle, { certificateMemory })).toBe("valid");
    const forged = { ...leaf, signature: { ...leaf.signature, ml_dsa_65: tamper(leaf.signature.ml_dsa_65) } };
    expect(await code({ ...bundle, delegations: [forged] }, { certificateMemory })).toBe("bad_signature");
    expect(await code({ ...bundle, delegations: [{ ...leaf, cert_id: "x" }] }, { certificateMemory })).toBe(
      "bad_signature",
    );
  });

  test("passes without a signature check, but not without any other check", async () => {
    const all = { has: () => true, add: () => undefined };
    const unsigned = async (change: Partial<DelegationFields>) => {
      const bundle = await prove([change]);
      const [leaf] = bundle.delegations as [DelegationCert];
      leaf.signature = { ...leaf.signature, ed25519: tamper(leaf.signature.ed25519) };
      return bundle;
    };
    expect(await code(await unsigned({}), { certificateMemory: all })).toBe("valid");
    expect(await code(await unsigned({ expires_at: NOW - 1 }), { certificateMemory: all })).toBe("expired");
    expect(await code(await unsigned({ issued_at: NOW + 1 }), { certificateMemory: all })).toBe(
      "not_yet_valid",
    );
    expect(await code(await unsigned({}), { certificateMemory: all, revocation: () => true })).toBe(
      "revoked",
    );
    expect(await code(await unsigned({ constraints: [{ type: "x" }] }), { certificateMemory: all })).toBe(
      "constraint_unknown",
    );
    const bundle = await prove();
    const challenge_sig = { ...bundle.challenge_sig, ed25519: tamper(bundle.challenge_sig.ed25519) };
    expect(await code({ ...bundle, challenge_sig }, { certificateMemory: all })).toBe("bad_challenge_sig");
  });

  test("needs a signature check if a character is moved between its signature halves, or differs only in the high byte", async () => {
    const certificateMemory = createCertificateMemory();
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    expect(await code(bundle, { certificateMemory })).toBe("valid");
    const { ed25519, ml_dsa_65 } = leaf.signature;
    const lookalike = String.fromCharCode(ed25519.charCodeAt(0) + 256) + ed25519.slice(1);
    for (const signature of [
      { ed25519: ed25519.slice(0, -1), ml_dsa_65: ed25519.slice(-1) + ml_dsa_65 },
      { ed25519: lookalike, ml_dsa_65 },
    ]) {
      const forged = { ...bundle, delegations: [{ ...leaf, signature }] };
      expect(await code(forged, { certificateMemory })).toBe("bad_signature");
    }
  });

  test("gets evicted when the memory is full, and is never stored with a bad signature", async () => {
    const certificateMemory = createCertificateMemory(2);
    for (const key of ["a", "b", "c"]) certificateMemory.add(key);
    expect(["a", "b", "c"].map((key) => certificateMemory.has(key))).toEqual([false, true, true]);
    const added: string[] = [];
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    leaf.signature = { ...leaf.signature, ed25519: tamper(leaf.signature.ed25519) };
    await code(bundle, { certificateMemory: { has: () => false, add: (key) => void added.push(key) } });
    expect(added).toEqual([]);
  });
});

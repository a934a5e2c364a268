import { describe, expect, test } from "vitest";
import type { DelegationCert, DelegationFields } from "../../src/protocol/documents/certificate.ts";
import { type VerifyOptions, verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";
import { code, options } from "../support/answers.ts";
import { bytes32, NOW, prove, tamper } from "../support/chains.ts";
import { memoryStore } from "../support/challenge_store.ts";

describe("a challenge store", () => {
  const proof = () => prove([{}]);

  test("accepts one proof for each challenge", async () => {
    const store = memoryStore(bytes32(7));
    expect(await code(await proof(), { challengeStore: store })).toBe("valid");
    expect(await code(await proof(), { challengeStore: store })).toBe("unknown_challenge");
  });

  test("accepts only one of several concurrent proofs with the same challenge", async () => {
    const store = memoryStore(bytes32(7));
    const bundle = await proof();
    const codes = await Promise.all(Array.from({ length: 8 }, () => code(bundle, { challengeStore: store })));
    expect(codes.filter((each) => each === "valid")).toHaveLength(1);
    expect(codes.filter((each) => each === "unknown_challenge")).toHaveLength(7);
  });

  test("makes verification reject an unknown challenge before any signature is checked", async () => {
    const store = memoryStore(bytes32(9));
    const result = await verifyBundle(await proof(), options({ challengeStore: store }));
    expect(result.violation?.code).toBe("unknown_challenge");
    expect(result.checks().find(({ name }) => name === "signature")?.outcome).toBe("not_reached");
    expect(store.log).toEqual(["isKnown"]);
  });

  test("gets its first call after the session check and before the stream check, as in §8", async () => {
    const store = () => memoryStore(bytes32(9));
    const stream = { stream_id: bytes32(2), last_seen_seq: 0 };
    expect(await code(await proof(), { challengeStore: store(), stream })).toBe("unknown_challenge");
    expect(await code(await proof(), { challengeStore: store(), stream, session_context: bytes32(1) })).toBe(
      "missing_session_context",
    );
    expect(await code(await proof(), { challengeStore: memoryStore(bytes32(7)), stream })).toBe(
      "missing_stream_context",
    );
  });

  test("receives no calls for a malformed bundle", async () => {
    const store = memoryStore(bytes32(7));
    await verifyBundle({ ...(await proof()), delegations: [] }, options({ challengeStore: store }));
    expect(store.log).toEqual([]);
  });

  test.each([
    [
      "a forged certificate",
      async () => {
        const bundle = await proof();
        const [leaf] = bundle.delegations as [DelegationCert];
        return {
          ...bundle,
          delegations: [
            { ...leaf, signature: { ...leaf.signature, ed25519: tamper(leaf.signature.ed25519) } },
          ],
        };
      },
    ],
    [
      "a forged challenge signature",
      async () => {
        const bundle = await proof();
        return {
          ...bundle,
          challenge_sig: { ...bundle.challenge_sig, ml_dsa_65: tamper(bundle.challenge_sig.ml_dsa_65) },
        };
      },
    ],
    ["a stale proof", () => prove([{}], { challenge_at: NOW - 301 })],
    ["a proof that names a different agent", async () => ({ ...(await proof()), agent_id: "someone" })],
    [
      "an expired certificate with a forged signature",
      async () => {
        const bundle = await prove([{ expires_at: NOW - 1 }]);
        const [leaf] = bundle.delegations as [DelegationCert];
        return { ...bundle, delegations: [{ ...leaf, expires_at: NOW - 2 }] };
      },
    ],
  ])("keeps the challenge open after %s", async (_, make) => {
    const store = memoryStore(bytes32(7));
    const result = await verifyBundle(await make(), options({ challengeStore: store }));
    expect(result).toMatchObject({ valid: false, genuine: false });
    expect(store.log).not.toContain("spend");
  });

  test.each([
    ["scope_denied", [{}], { required_scope: "files:read" }],
    ["constraint_unknown", [{ constraints: [{ type: "acme:x" }] }], {}],
    ["expired", [{ expires_at: NOW - 1 }], {}],
    ["not_yet_valid", [{ issued_at: NOW + 1 }], {}],
    ["revoked", [{}], { revocation: () => true }],
    ["revocation_error", [{}], { revocation: () => Promise.reject(new Error("down")) }],
    ["delegation_not_authorized", [{}, { scope: ["meeting:attend"] }], {}],
  ] as [string, Partial<DelegationFields>[], Partial<VerifyOptions>][])(
    "spends the challenge of a genuine proof that is denied as %s",
    async (expected, changes, extra) => {
      const store = memoryStore(bytes32(7));
      const result = await verifyBundle(await prove(changes), options({ challengeStore: store, ...extra }));
      expect(result.violation?.code).toBe(expected);
      expect(result.genuine).toBe(true);
      expect(store.log).toEqual(["isKnown", "spend"]);
    },
  );

  test("makes verification check all constraints after the challenge, not together with each certificate", async () => {
    const unknown = { constraints: [{ type: "acme:x" }] };
    const bundle = await prove([unknown, { expires_at: NOW - 1 }]);
    expect(await code(bundle)).toBe("constraint_unknown");
    expect(await code(bundle, { challengeStore: memoryStore(bytes32(7)) })).toBe("expired");
    expect(await code(bundle, { challengeStore: "deferred" })).toBe("expired");
    const names = (await verifyBundle(bundle, options({ challengeStore: "deferred" })))
      .checks()
      .map(({ name }) => name);
    expect(names.indexOf("constraints")).toBeGreaterThan(names.indexOf("challenge_spent"));
  });

  test("makes verification throw an error, instead of refusing the proof, if the store throws", async () => {
    const broken = { isKnown: () => Promise.reject(new Error("down")), spend: () => true };
    await expect(verifyBundle(await proof(), options({ challengeStore: broken }))).rejects.toThrow("down");
  });
});

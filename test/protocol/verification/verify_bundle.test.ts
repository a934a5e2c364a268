import { describe, expect, test, vi } from "vitest";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import type { DelegationCert, DelegationFields } from "../../../src/protocol/documents/certificate.ts";
import { presentProof } from "../../../src/protocol/statements/issuing.ts";
import { verifyBundle } from "../../../src/protocol/verification/verify_bundle.ts";
import { code, options } from "../../support/answers.ts";
import { AGENT, binding, certify, NOW, prove, ROOT, tamper, testKey } from "../../support/chains.ts";

describe("verifying a valid proof", () => {
  test("returns the human, the agent and the granted scopes", async () => {
    const result = await verifyBundle(
      await prove([{}, { scope: ["meeting:*", "identity:delegate"] }]),
      options(),
    );
    expect(result).toMatchObject({
      valid: true,
      human_id: ROOT.id,
      agent_id: AGENT.id,
      granted_scope: ["meeting:attend"],
      identity_status: "authorized_agent",
      genuine: true,
    });
    expect(result).not.toHaveProperty("error_reason");
    expect(new Set(result.checks().map(({ outcome }) => outcome))).toEqual(new Set(["passed"]));
  });

  test("gives the same result with the reference implementation", async () => {
    expect(await code(await prove(), { backend: "reference" })).toBe("valid");
  });
});

describe("the structure of a bundle", () => {
  test("allows a chain of 8 certificates, but not of 9", async () => {
    const deep = (depth: number) => prove(Array.from({ length: depth }, () => ({})));
    expect(await code(await deep(8))).toBe("valid");
    expect(await code(await deep(9))).toBe("chain_too_deep");
  });

  test("requires a certificate and a challenge", async () => {
    const bundle = await prove();
    expect(await code({ ...bundle, delegations: [] })).toBe("no_delegations");
    expect(await code({ ...bundle, challenge: "" })).toBe("no_challenge");
  });
});

describe("the required scope", () => {
  test.each([
    ["meeting:attend", "valid"],
    ["meeting:speak", "scope_denied"],
    ["meeting:*", "scope_denied"],
    ["", "scope_denied"],
  ])("%j gives the result: %s", async (required_scope, expected) => {
    expect(await code(await prove(), { required_scope })).toBe(expected);
  });

  test("must be granted by every certificate in the chain", async () => {
    const bundle = await prove([
      { scope: ["meeting:record"] },
      { scope: ["meeting:*", "identity:delegate"] },
    ]);
    expect(await code(bundle, { required_scope: "meeting:record" })).toBe("scope_denied");
  });
});

describe("the first violation in order", () => {
  test("determines the answer, and every later rule is reported as passed or not reached", async () => {
    const bundle = await prove([{}, { expires_at: NOW - 1 }]);
    const result = await verifyBundle(bundle, options({ required_scope: "files:read" }));
    const outcomes = Object.fromEntries(result.checks().map(({ name, outcome }) => [name, outcome]));
    expect(result.violation).toMatchObject({ code: "expired", certificate: 1 });
    expect(outcomes).toEqual({
      structure: "passed",
      session_context: "passed",
      challenge_known: "passed",
      stream: "passed",
      agent_key: "passed",
      version: "passed",
      vocabulary: "passed",
      not_expired: "failed",
      already_valid: "not_reached",
      not_revoked: "not_reached",
      signature: "passed",
      constraints: "not_reached",
      link: "passed",
      delegation_right: "not_reached",
      challenge_freshness: "passed",
      challenge_signature: "passed",
      challenge_spent: "passed",
      required_scope: "not_reached",
    });
  });

  test("hides a later forged signature in the answer, but the proof does not count as genuine", async () => {
    const bundle = await prove([{ expires_at: NOW - 1 }, {}]);
    const root = bundle.delegations[1] as DelegationCert;
    root.signature = { ...root.signature, ml_dsa_65: tamper(root.signature.ml_dsa_65) };
    expect(await verifyBundle(bundle, options())).toMatchObject({
      genuine: false,
      violation: { code: "expired" },
    });
  });

  test("hides a later broken link in the answer, but the proof does not count as genuine", async () => {
    const stranger = testKey(88);
    const victim = await certify(ROOT, testKey(89), { scope: ["meeting:attend", "identity:delegate"] });
    const own = await certify(stranger, AGENT, { expires_at: NOW - 1 });
    const result = await verifyBundle(
      await presentProof(AGENT.privateKey, [own, victim], binding()),
      options(),
    );
    expect(result).toMatchObject({ genuine: false, violation: { code: "expired" } });
  });

  test("prevents the rate constraints after it from counting invocations", async () => {
    const constraints: Constraint[] = [{ type: "max_rate", count: 5, window_s: 60 }];
    const full = {
      constraints: [{ type: "max_rate", count: 1, window_s: 60 }, ...constraints] as Constraint[],
    };
    const counted = async (...changes: Partial<DelegationFields>[]) => {
      const invocations = vi.fn(() => 1);
      const context = { invocations };
      await verifyBundle(await prove(changes), options({ context, challengeStore: "deferred" }));
      return invocations.mock.calls;
    };
    expect(await counted({ constraints, expires_at: NOW - 1 })).toEqual([]);
    expect(await counted({ constraints }, { scope: ["meeting:attend"] })).toEqual([]);
    expect(await counted(full, { constraints })).toEqual([["cert-0", 60]]);
    expect(await counted({ constraints }, { constraints })).toEqual([
      ["cert-0", 60],
      ["cert-1", 60],
    ]);
  });

  test("can be a bad signature that comes before a malformed certificate", async () => {
    const bundle = await prove([{}, { version: 2 }]);
    const [leaf] = bundle.delegations as [DelegationCert];
    leaf.signature = { ...leaf.signature, ed25519: tamper(leaf.signature.ed25519) };
    expect(await code(bundle)).toBe("bad_signature");
  });
});

test.each([Number.NaN, 1.5, Number.POSITIVE_INFINITY])(
  "verification fails if the clock value is %d",
  async (now) => {
    await expect(verifyBundle(await prove(), { now })).rejects.toThrow(
      expect.objectContaining({ code: "invalid_integer" }),
    );
  },
);

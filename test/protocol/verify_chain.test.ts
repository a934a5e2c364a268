import { describe, expect, test } from "vitest";
import type { DelegationCert, DelegationFields } from "../../src/protocol/documents/certificate.ts";
import { NO_EXPIRY_SENTINEL } from "../../src/protocol/encoding/constants.ts";
import { presentProof } from "../../src/protocol/statements/issuing.ts";
import { verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";
import { code, options } from "../support/answers.ts";
import { AGENT, binding, certify, NOW, prove, ROOT, tamper, testKey } from "../support/chains.ts";

const proveOne = (change: Partial<DelegationFields>) => prove([change]);

describe("the agent", () => {
  test("must be the subject of the leaf certificate, by key and by id", async () => {
    const bundle = await prove();
    expect(await code({ ...bundle, agent_pub_key: ROOT.publicKey })).toBe("key_mismatch");
    expect(await code({ ...bundle, agent_id: ROOT.id })).toBe("id_mismatch");
    for (const length of [3, 31, 33]) {
      const ed25519 = Buffer.alloc(length).toString("base64");
      expect(await code({ ...bundle, agent_pub_key: { ...AGENT.publicKey, ed25519 } })).toBe(
        "invalid_agent_key",
      );
    }
    for (const length of [1951, 1953]) {
      const ml_dsa_65 = Buffer.alloc(length).toString("base64");
      expect(await code({ ...bundle, agent_pub_key: { ...AGENT.publicKey, ml_dsa_65 } })).toBe(
        "invalid_agent_key",
      );
    }
  });

  test.each(["ed25519", "ml_dsa_65"] as const)(
    "must have the %s half of the leaf certificate's subject key",
    async (half) => {
      const agent_pub_key = { ...AGENT.publicKey, [half]: testKey(66).publicKey[half] };
      expect(await code({ ...(await prove()), agent_pub_key })).toBe("key_mismatch");
    },
  );

  test("must have the id of its own key, even if the issuer wrote a different id into the certificate", async () => {
    const victim = testKey(67).id;
    const bundle = await proveOne({ subject_id: victim });
    expect(await code({ ...bundle, agent_id: victim })).toBe("id_mismatch");
  });

  test("cannot present the certificate of a different agent", async () => {
    const [certificate] = (await prove()).delegations as [DelegationCert];
    const thief = testKey(66);
    const stolen = await presentProof(thief.privateKey, [certificate], binding());
    expect(await code(stolen)).toBe("key_mismatch");
    expect(await code({ ...stolen, agent_id: AGENT.id, agent_pub_key: AGENT.publicKey })).toBe(
      "bad_challenge_sig",
    );
  });
});

describe("each certificate", () => {
  test("must have version 1", async () => {
    expect(await code(await proveOne({ version: 2 }))).toBe("version_mismatch");
    expect(await code(await proveOne({ version: 0 }))).toBe("version_mismatch");
  });

  test("must contain only scopes in the vocabulary", async () => {
    expect(await code(await proveOne({ scope: ["meeting:attend", "urn:x"] }))).toBe("invalid_scope");
  });

  test("stays valid from its first to its last second, both included", async () => {
    const bundle = (now: number) => prove([{ issued_at: NOW, expires_at: NOW + 10 }], { challenge_at: now });
    expect(await code(await bundle(NOW), { now: NOW })).toBe("valid");
    expect(await code(await bundle(NOW - 1), { now: NOW - 1 })).toBe("not_yet_valid");
    expect(await code(await bundle(NOW + 10), { now: NOW + 10 })).toBe("valid");
    expect(await code(await bundle(NOW + 11), { now: NOW + 11 })).toBe("expired");
  });

  test("may have no expiry, and is then valid until the last second that the format can express", async () => {
    const last = NO_EXPIRY_SENTINEL;
    const bundle = (challenge_at: number) => prove([{ expires_at: last }], { challenge_at });
    expect(await code(await bundle(last), { now: last })).toBe("valid");
    expect(await code(await bundle(last + 1), { now: last + 1 })).toBe("expired");
  });

  test("causes an answer with human, agent and the published wording if it has expired", async () => {
    const result = await verifyBundle(await proveOne({ expires_at: NOW - 1 }), options());
    expect(result).toMatchObject({
      identity_status: "expired",
      error_reason: "delegation certificate has expired",
      human_id: ROOT.id,
      agent_id: AGENT.id,
    });
  });

  test("causes an answer with human, agent and the published wording if it is revoked", async () => {
    const revocation = ({ cert_id }: DelegationCert) => cert_id === "cert-1";
    const result = await verifyBundle(await prove([{}, {}]), options({ revocation }));
    expect(result).toMatchObject({
      identity_status: "revoked",
      error_reason: "delegation certificate has been revoked",
      human_id: ROOT.id,
      agent_id: AGENT.id,
      violation: { code: "revoked", certificate: 1 },
    });
  });

  test.each([0, 3, 7])("must have a valid signature, even at position %d of 8", async (index) => {
    const bundle = await prove(Array.from({ length: 8 }, () => ({})));
    const certificate = bundle.delegations[index] as DelegationCert;
    certificate.signature = { ...certificate.signature, ml_dsa_65: tamper(certificate.signature.ml_dsa_65) };
    expect((await verifyBundle(bundle, options())).violation).toMatchObject({
      code: "bad_signature",
      certificate: index,
    });
  });

  test.each(["ed25519", "ml_dsa_65"] as const)("must have a valid %s signature", async (half) => {
    const bundle = await prove([{}, {}]);
    const root = bundle.delegations[1] as DelegationCert;
    root.signature = { ...root.signature, [half]: tamper(root.signature[half]) };
    const result = await verifyBundle(bundle, options());
    expect(result.violation).toMatchObject({ code: "bad_signature", certificate: 1 });
    expect(result.error_reason).toBe(
      `bad_signature: cert 1: ${half === "ed25519" ? "Ed25519" : "ML-DSA-65"} signature invalid`,
    );
  });

  test.each([
    ["scope", ["meeting:record"]],
    ["cert_id", "other"],
    ["expires_at", NOW + 99_999],
    ["issued_at", 0],
    ["constraints", [{ type: "time_window", start: "00:00", end: "23:59", tz: "UTC" }]],
  ])("fails verification after a change of its %s", async (name, value) => {
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    expect(await code({ ...bundle, delegations: [{ ...leaf, [name]: value } as DelegationCert] })).toBe(
      "bad_signature",
    );
  });

  test("fails verification if its content has no canonical form", async () => {
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    expect(await code({ ...bundle, delegations: [{ ...leaf, cert_id: "\ud800" }] })).toBe("bad_signature");
  });

  test.each(["ed25519", "ml_dsa_65"] as const)(
    "must be linked to the next certificate by the %s half of its issuer's key",
    async (half) => {
      const [leaf] = (await prove([{}, {}])).delegations as [DelegationCert];
      const publicKey = { ...leaf.issuer_pub_key, [half]: testKey(77).publicKey[half] };
      const parent = await certify(
        ROOT,
        { ...testKey(77), id: leaf.issuer_id, publicKey },
        { scope: ["meeting:attend", "identity:delegate"] },
      );
      expect(await code(await presentProof(AGENT.privateKey, [leaf, parent], binding()))).toBe(
        "broken_chain_keys",
      );
    },
  );

  test("must be linked to the next certificate by id and by key", async () => {
    const stranger = testKey(77);
    const [leaf, root] = (await prove([{}, {}])).delegations as [DelegationCert, DelegationCert];
    const other = await certify(ROOT, stranger, { scope: ["meeting:attend", "identity:delegate"] });
    const sameId = await certify(
      ROOT,
      { ...stranger, id: leaf.issuer_id },
      { scope: ["meeting:attend", "identity:delegate"] },
    );
    const present = (...delegations: DelegationCert[]) =>
      presentProof(AGENT.privateKey, delegations, binding());
    expect(await code(await present(leaf, root))).toBe("valid");
    expect(await code(await present(leaf, other))).toBe("broken_chain");
    expect(await code(await present(leaf, sameId))).toBe("broken_chain_keys");
    expect(await code(await present(leaf, root, root))).toBe("broken_chain");
  });

  test("must have the id of its signing key as issuer id if it is the root certificate", async () => {
    const victim = testKey(67).id;
    expect(await code(await proveOne({ issuer_id: victim }))).toBe("broken_chain");
    expect(await code(await prove([{}, { issuer_id: victim }]))).toBe("broken_chain");
  });

  test("must be issued by a subject whose own certificate lists the delegate scope by name", async () => {
    expect(await code(await prove([{}, { scope: ["meeting:attend", "identity:prove"] }]))).toBe(
      "delegation_not_authorized",
    );
    expect(await code(await prove([{}, { scope: ["meeting:*"] }]))).toBe("delegation_not_authorized");
    expect(await code(await prove([{ scope: ["identity:delegate"] }, {}]))).toBe("valid");
  });
});

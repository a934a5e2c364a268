import { describe, expect, test } from "vitest";
import type { DelegationCert, DelegationFields } from "../../src/protocol/certificate.ts";
import { presentProof } from "../../src/protocol/issuing.ts";
import type { ProofBundle } from "../../src/protocol/proof_bundle.ts";
import { createCertificateMemory, type VerifyOptions, verifyBundle } from "../../src/protocol/verify.ts";
import { AGENT, binding, bytes32, certify, NOW, prove, ROOT, tamper, testKey } from "../support/chains.ts";
import { memoryStore } from "../support/challenge_store.ts";

const options = (changes: Partial<VerifyOptions> = {}): VerifyOptions => ({ now: NOW, ...changes });
const code = async (bundle: ProofBundle, changes?: Partial<VerifyOptions>) =>
  (await verifyBundle(bundle, options(changes))).violation?.code ?? "valid";
const proveOne = (change: Partial<DelegationFields>) => prove([change]);

describe("a good proof", () => {
  test("names the human, the agent and what the chain grants", async () => {
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
    expect(new Set(result.checks.map(({ outcome }) => outcome))).toEqual(new Set(["passed"]));
  });

  test("passes with the reference implementation too", async () => {
    expect(await code(await prove(), { backend: "reference" })).toBe("valid");
  });
});

describe("structure", () => {
  test("takes a chain of 8 and not of 9", async () => {
    const deep = (depth: number) => prove(Array.from({ length: depth }, () => ({})));
    expect(await code(await deep(8))).toBe("valid");
    expect(await code(await deep(9))).toBe("chain_too_deep");
  });

  test("needs a certificate and a challenge", async () => {
    const bundle = await prove();
    expect(await code({ ...bundle, delegations: [] })).toBe("no_delegations");
    expect(await code({ ...bundle, challenge: "" })).toBe("no_challenge");
  });
});

describe("session context", () => {
  test.each([
    ["absent on both sides", undefined, undefined, "valid"],
    ["equal", bytes32(1), bytes32(1), "valid"],
    ["different", bytes32(1), bytes32(2), "session_context_mismatch"],
    ["missing in the bundle", undefined, bytes32(1), "missing_session_context"],
    ["unknown to the verifier", bytes32(1), undefined, "session_context_unverifiable"],
    ["of another length at the verifier", bytes32(1), bytes32(1).slice(0, 24), "invalid_session_context"],
  ])("%s", async (_, presented, own, expected) => {
    const bundle = await prove([{}], presented === undefined ? {} : { session_context: presented });
    expect(await code(bundle, { session_context: own })).toBe(expected);
  });

  test("of another length in the bundle", async () => {
    const bundle = { ...(await prove()), session_context: "AAAA" };
    expect(await code(bundle, { session_context: bytes32(1) })).toBe("invalid_session_context");
  });

  test("cannot be added, removed or changed after signing", async () => {
    const bound = await prove([{}], { session_context: bytes32(1) });
    const { session_context: _, ...unbound } = bound;
    expect(await code(unbound)).toBe("bad_challenge_sig");
    expect(await code({ ...bound, session_context: bytes32(2) }, { session_context: bytes32(2) })).toBe(
      "bad_challenge_sig",
    );
    expect(
      await code({ ...(await prove()), session_context: bytes32(1) }, { session_context: bytes32(1) }),
    ).toBe("bad_challenge_sig");
  });
});

describe("stream", () => {
  const stream = (last_seen_seq: number, byte = 5) => ({
    stream: { stream_id: bytes32(byte), last_seen_seq },
  });
  const turn = (stream_seq: number) => prove([{}], { stream_id: bytes32(5), stream_seq });

  test.each([
    [1, 0, "valid"],
    [4, 3, "valid"],
    [3, 3, "stream_seq_replay"],
    [1, 3, "stream_seq_replay"],
    [5, 3, "stream_seq_skip"],
    [0, 0, "invalid_stream_seq"],
    [-1, -2, "invalid_stream_seq"],
  ])("turn %d after %d: %s", async (seq, last, expected) => {
    expect(await code(await turn(seq), stream(last))).toBe(expected);
  });

  test("must be the verifier's, and be there on both sides or on none", async () => {
    expect(await code(await turn(1), stream(0, 6))).toBe("stream_id_mismatch");
    expect(await code(await turn(1))).toBe("stream_context_unverifiable");
    expect(await code(await prove(), stream(0))).toBe("missing_stream_context");
    expect(await code({ ...(await turn(1)), stream_id: "AAAA" }, stream(0))).toBe("invalid_stream_id");
  });

  test("cannot be renumbered after signing", async () => {
    expect(await code({ ...(await turn(1)), stream_seq: 2 }, stream(1))).toBe("bad_challenge_sig");
  });
});

describe("the agent", () => {
  test("is the leaf's subject by key and by id", async () => {
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

  test("goes by its own key's id, whatever an issuer names it", async () => {
    const victim = testKey(67).id;
    const bundle = await proveOne({ subject_id: victim });
    expect(await code({ ...bundle, agent_id: victim })).toBe("id_mismatch");
  });

  test("cannot present another agent's certificate", async () => {
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
  test("speaks version 1", async () => {
    expect(await code(await proveOne({ version: 2 }))).toBe("version_mismatch");
    expect(await code(await proveOne({ version: 0 }))).toBe("version_mismatch");
  });

  test("has scopes of the vocabulary only", async () => {
    expect(await code(await proveOne({ scope: ["meeting:attend", "urn:x"] }))).toBe("invalid_scope");
  });

  test("holds from its first second to its last, both included", async () => {
    const bundle = (now: number) => prove([{ issued_at: NOW, expires_at: NOW + 10 }], { challenge_at: now });
    expect(await code(await bundle(NOW), { now: NOW })).toBe("valid");
    expect(await code(await bundle(NOW - 1), { now: NOW - 1 })).toBe("not_yet_valid");
    expect(await code(await bundle(NOW + 10), { now: NOW + 10 })).toBe("valid");
    expect(await code(await bundle(NOW + 11), { now: NOW + 11 })).toBe("expired");
  });

  test("tells of expiry in the published words, and of whom", async () => {
    const result = await verifyBundle(await proveOne({ expires_at: NOW - 1 }), options());
    expect(result).toMatchObject({
      identity_status: "expired",
      error_reason: "delegation certificate has expired",
      human_id: ROOT.id,
      agent_id: AGENT.id,
    });
  });

  test.each([0, 3, 7])("is signed, also at position %d of 8", async (index) => {
    const bundle = await prove(Array.from({ length: 8 }, () => ({})));
    const certificate = bundle.delegations[index] as DelegationCert;
    certificate.signature = { ...certificate.signature, ml_dsa_65: tamper(certificate.signature.ml_dsa_65) };
    expect((await verifyBundle(bundle, options())).violation).toMatchObject({
      code: "bad_signature",
      certificate: index,
    });
  });

  test.each(["ed25519", "ml_dsa_65"] as const)("is signed with %s", async (half) => {
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
  ])("cannot have its %s changed after signing", async (name, value) => {
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    expect(await code({ ...bundle, delegations: [{ ...leaf, [name]: value } as DelegationCert] })).toBe(
      "bad_signature",
    );
  });

  test("is no certificate when its content has no canonical form", async () => {
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    expect(await code({ ...bundle, delegations: [{ ...leaf, cert_id: "\ud800" }] })).toBe("bad_signature");
  });

  test("is linked to the next by id and by key", async () => {
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

  test("at the root is issued under the id of the key that signed it", async () => {
    const victim = testKey(67).id;
    expect(await code(await proveOne({ issuer_id: victim }))).toBe("broken_chain");
    expect(await code(await prove([{}, { issuer_id: victim }]))).toBe("broken_chain");
  });

  test("may be issued only by one that may delegate, by name", async () => {
    expect(await code(await prove([{}, { scope: ["meeting:attend", "identity:prove"] }]))).toBe(
      "delegation_not_authorized",
    );
    expect(await code(await prove([{}, { scope: ["meeting:*"] }]))).toBe("delegation_not_authorized");
    expect(await code(await prove([{ scope: ["identity:delegate"] }, {}]))).toBe("valid");
  });
});

describe("the challenge", () => {
  test.each([
    [0, "valid"],
    [300, "valid"],
    [301, "stale_challenge"],
    [-1, "stale_challenge"],
  ])("signed %d seconds ago: %s", async (age, expected) => {
    expect(await code(await prove(), { now: NOW + age })).toBe(expected);
  });

  test.each(["ed25519", "ml_dsa_65"] as const)("is signed with %s", async (half) => {
    const bundle = await prove();
    const challenge_sig = { ...bundle.challenge_sig, [half]: tamper(bundle.challenge_sig[half]) };
    expect(await code({ ...bundle, challenge_sig })).toBe("bad_challenge_sig");
  });

  test("cannot be exchanged after signing", async () => {
    const bundle = await prove();
    expect(await code({ ...bundle, challenge: bytes32(8) })).toBe("bad_challenge_sig");
    expect(await code({ ...bundle, challenge_at: NOW - 1 })).toBe("bad_challenge_sig");
  });
});

describe("a challenge store", () => {
  const proof = () => prove([{}]);

  test("lets one proof through for each challenge", async () => {
    const store = memoryStore(bytes32(7));
    expect(await code(await proof(), { challengeStore: store })).toBe("valid");
    expect(await code(await proof(), { challengeStore: store })).toBe("unknown_challenge");
  });

  test("lets one of many at the same time through", async () => {
    const store = memoryStore(bytes32(7));
    const bundle = await proof();
    const codes = await Promise.all(Array.from({ length: 8 }, () => code(bundle, { challengeStore: store })));
    expect(codes.filter((each) => each === "valid")).toHaveLength(1);
    expect(codes.filter((each) => each === "unknown_challenge")).toHaveLength(7);
  });

  test("answers a foreign challenge before any signature work", async () => {
    const store = memoryStore(bytes32(9));
    const result = await verifyBundle(await proof(), options({ challengeStore: store }));
    expect(result.violation?.code).toBe("unknown_challenge");
    expect(result.checks.find(({ name }) => name === "signature")?.outcome).toBe("not_reached");
    expect(store.log).toEqual(["isKnown"]);
  });

  test("is not asked for a malformed bundle", async () => {
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
    ["a foreign agent's proof", async () => ({ ...(await proof()), agent_id: "someone" })],
    [
      "an expired certificate with a forged signature",
      async () => {
        const bundle = await prove([{ expires_at: NOW - 1 }]);
        const [leaf] = bundle.delegations as [DelegationCert];
        return { ...bundle, delegations: [{ ...leaf, expires_at: NOW - 2 }] };
      },
    ],
  ])("is not spent by %s", async (_, make) => {
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
    "is spent by a genuine proof denied as %s",
    async (expected, changes, extra) => {
      const store = memoryStore(bytes32(7));
      const result = await verifyBundle(await prove(changes), options({ challengeStore: store, ...extra }));
      expect(result.violation?.code).toBe(expected);
      expect(result.genuine).toBe(true);
      expect(store.log).toEqual(["isKnown", "spend"]);
    },
  );

  test("puts the constraints after the challenge, where without one they come before the next certificate", async () => {
    const unknown = { constraints: [{ type: "acme:x" }] };
    const bundle = await prove([unknown, { expires_at: NOW - 1 }]);
    expect(await code(bundle)).toBe("constraint_unknown");
    expect(await code(bundle, { challengeStore: memoryStore(bytes32(7)) })).toBe("expired");
    expect(await code(bundle, { challengeStore: "deferred" })).toBe("expired");
    const names = (await verifyBundle(bundle, options({ challengeStore: "deferred" }))).checks.map(
      ({ name }) => name,
    );
    expect(names.indexOf("constraints")).toBeGreaterThan(names.indexOf("challenge_spent"));
  });

  test("that breaks makes the call fail, not the proof", async () => {
    const broken = { isKnown: () => Promise.reject(new Error("down")), spend: () => true };
    await expect(verifyBundle(await proof(), options({ challengeStore: broken }))).rejects.toThrow("down");
  });
});

describe("revocation", () => {
  test("is asked leaf to root, of good certificates only, until one is not", async () => {
    const asked: string[] = [];
    const revocation =
      (revoked: string) =>
      ({ cert_id }: DelegationCert) => {
        asked.push(cert_id);
        return cert_id === revoked;
      };
    const bundle = await prove([{}, {}, {}]);
    expect(await code(bundle, { revocation: revocation("none") })).toBe("valid");
    expect(asked.splice(0)).toEqual(["cert-0", "cert-1", "cert-2"]);
    const result = await verifyBundle(bundle, options({ revocation: revocation("cert-1") }));
    expect(result).toMatchObject({
      identity_status: "revoked",
      human_id: ROOT.id,
      agent_id: AGENT.id,
      consulted: ["cert-0", "cert-1"],
    });
    expect(asked).toEqual(["cert-0", "cert-1"]);
  });

  test("that cannot be known refuses the proof", async () => {
    const result = await verifyBundle(
      await prove(),
      options({
        revocation: () => {
          throw new Error("down");
        },
      }),
    );
    expect(result).toMatchObject({
      valid: false,
      identity_status: "invalid",
      violation: { code: "revocation_error" },
    });
  });

  test("comes before the certificate's signature", async () => {
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    leaf.signature = { ...leaf.signature, ed25519: tamper(leaf.signature.ed25519) };
    const result = await verifyBundle(bundle, options({ revocation: () => true }));
    expect(result).toMatchObject({ genuine: false, violation: { code: "revoked" } });
  });

  test.each([
    ["nothing is wrong", [{}, {}], {}, ["cert-0", "cert-1"]],
    ["the scope is denied", [{}, {}], { required_scope: "files:read" }, ["cert-0", "cert-1"]],
    ["the leaf has expired", [{ expires_at: NOW - 1 }, {}], {}, []],
    ["the root has expired", [{}, { expires_at: NOW - 1 }], {}, ["cert-0"]],
    ["the leaf's constraint is unknown", [{ constraints: [{ type: "x" }] }, {}], {}, ["cert-0"]],
    [
      "the same, with the challenge spent elsewhere",
      [{ constraints: [{ type: "x" }] }, {}],
      { challengeStore: "deferred" },
      ["cert-0", "cert-1"],
    ],
    ["the root may not delegate", [{}, { scope: ["meeting:attend"] }], {}, ["cert-0"]],
  ] as [string, Partial<DelegationFields>[], Partial<VerifyOptions>, string[]][])(
    "deferred names what is left to ask when %s",
    async (_, changes, extra, consulted) => {
      const result = await verifyBundle(await prove(changes), options({ revocation: "deferred", ...extra }));
      expect(result.consulted).toEqual(consulted);
    },
  );
});

describe("the first violation in order", () => {
  test("is the answer, and the rules after it are told apart", async () => {
    const bundle = await prove([{}, { expires_at: NOW - 1 }]);
    const result = await verifyBundle(bundle, options({ required_scope: "files:read" }));
    const outcomes = Object.fromEntries(result.checks.map(({ name, outcome }) => [name, outcome]));
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

  test("hides a forged signature after it in the answer, never in whether the proof is genuine", async () => {
    const bundle = await prove([{ expires_at: NOW - 1 }, {}]);
    const root = bundle.delegations[1] as DelegationCert;
    root.signature = { ...root.signature, ml_dsa_65: tamper(root.signature.ml_dsa_65) };
    expect(await verifyBundle(bundle, options())).toMatchObject({
      genuine: false,
      violation: { code: "expired" },
    });
  });

  test("never makes genuine what is not linked, although every signature is good", async () => {
    const stranger = testKey(88);
    const victim = await certify(ROOT, testKey(89), { scope: ["meeting:attend", "identity:delegate"] });
    const own = await certify(stranger, AGENT, { expires_at: NOW - 1 });
    const result = await verifyBundle(
      await presentProof(AGENT.privateKey, [own, victim], binding()),
      options(),
    );
    expect(result).toMatchObject({ genuine: false, violation: { code: "expired" } });
  });

  test("is a bad signature before a later malformed certificate", async () => {
    const bundle = await prove([{}, { version: 2 }]);
    const [leaf] = bundle.delegations as [DelegationCert];
    leaf.signature = { ...leaf.signature, ed25519: tamper(leaf.signature.ed25519) };
    expect(await code(bundle)).toBe("bad_signature");
  });
});

describe("the required scope", () => {
  test.each([
    ["meeting:attend", "valid"],
    ["meeting:speak", "scope_denied"],
    ["meeting:*", "scope_denied"],
    ["", "scope_denied"],
  ])("%j: %s", async (required_scope, expected) => {
    expect(await code(await prove(), { required_scope })).toBe(expected);
  });

  test("is held against all certificates of the chain", async () => {
    const bundle = await prove([
      { scope: ["meeting:record"] },
      { scope: ["meeting:*", "identity:delegate"] },
    ]);
    expect(await code(bundle, { required_scope: "meeting:record" })).toBe("scope_denied");
  });
});

describe("a remembered certificate", () => {
  test("is not checked again, but only with exactly its bytes and signature", async () => {
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

  test("skips its signature check and nothing else", async () => {
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

  test("is not recognised with its signature cut elsewhere, or with other characters of the same low byte", async () => {
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

  test("is forgotten when the memory is full, and a bad one is never remembered", async () => {
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

test.each([Number.NaN, 1.5, Number.POSITIVE_INFINITY])(
  "a clock that reads %d is a broken call, not an answer",
  async (now) => {
    await expect(verifyBundle(await prove(), { now })).rejects.toThrow(
      expect.objectContaining({ code: "invalid_integer" }),
    );
  },
);

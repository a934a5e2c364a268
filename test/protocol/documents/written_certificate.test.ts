import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readVerifyCall } from "../../../src/proofs/verify/call.ts";
import {
  certificate,
  type DelegationCert,
  decodeDelegationCert,
} from "../../../src/protocol/documents/certificate.ts";
import {
  createRecentCertificates,
  type RecentCertificates,
} from "../../../src/protocol/documents/certificate_memory.ts";
import { decodeProofBundle, type ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { MAX_JSON_NESTING_DEPTH, MAX_PROOF_BUNDLE_BYTES } from "../../../src/protocol/encoding/constants.ts";
import { ProtocolError } from "../../../src/protocol/encoding/errors.ts";
import { parseJson } from "../../../src/protocol/encoding/json.ts";
import { createCertificateMemory } from "../../../src/protocol/verification/verify_bundle.ts";
import type { ApiKeyCaller } from "../../../src/route.ts";
import { code } from "../../support/answers.ts";
import { AGENT, encode, prove, tamper } from "../../support/chains.ts";
import { certificates } from "../../support/proof_arbitraries.ts";

const AMPLE = 10_000_000;
const LIMITS = { bytes: MAX_PROOF_BUNDLE_BYTES, depth: MAX_JSON_NESTING_DEPTH };

/** Ways to write a bundle: compact, with Python's spacing, indented, and with members in reverse order. */
const SPELLINGS: ((bundle: ProofBundle) => string)[] = [
  (bundle) => JSON.stringify(bundle),
  (bundle) => JSON.stringify(bundle).replaceAll('":', '": ').replaceAll(',"', ', "'),
  (bundle) => JSON.stringify(bundle, undefined, 2).replaceAll("\n", "\r\n"),
  (bundle) => JSON.stringify(Object.fromEntries(Object.entries(bundle).reverse())),
];

function recentAfter(document: Uint8Array): RecentCertificates {
  const recent = createRecentCertificates(AMPLE);
  for (const each of decodeProofBundle(document, recent).delegations) recent.add(each);
  return recent;
}

function read(document: Uint8Array, recent?: RecentCertificates): unknown {
  try {
    return decodeProofBundle(document, recent);
  } catch (error) {
    if (error instanceof ProtocolError) return `${error.code} ${error.message}`;
    throw error;
  }
}

const edits = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  cut: fc.nat(3),
  put: fc.oneof(
    fc.constant(Buffer.from([0xff])),
    fc
      .constantFrom("", "?", '"', "{", "}", ",", "\\", "\u0001", " ", "é", '"delegations":[', "[]", "1")
      .map((text) => Buffer.from(text)),
  ),
});

function edited(document: Uint8Array, { at, cut, put }: { at: number; cut: number; put: Buffer }): Buffer {
  const from = Math.floor(at * document.length);
  return Buffer.concat([document.subarray(0, from), put, document.subarray(from + cut)]);
}

describe("known certificates in a document", () => {
  test("match in the spelling in which they were first read, together with the agent's key if its bytes are equal", async () => {
    // In the indented form, the agent's key is indented less than the subject key of the leaf.
    for (const [n, spell] of SPELLINGS.slice(0, 3).entries()) {
      const bundle = await prove([{}, {}, { constraints: [{ type: "max_speed_mps", max_mps: 3 }] }]);
      const document = Buffer.from(spell(bundle));
      const recent = recentAfter(document);
      const found = recent.find(document);
      expect(found.map(({ value }) => value)).toEqual([
        ...(n < 2 ? [bundle.agent_pub_key] : []),
        ...bundle.delegations,
      ]);
      const again = decodeProofBundle(document, recent);
      expect(again).toEqual(bundle);
      const decoded = found.slice(-3).map(({ value }) => certificate(value));
      expect(again.delegations.every((each, place) => each === decoded[place])).toBe(true);
      expect(Object.is(again.agent_pub_key, again.delegations[0]?.subject_pub_key)).toBe(n < 2);
    }
  });

  test("never change the result or the error of parsing a document", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(certificates, { minLength: 1, maxLength: 3 }),
        fc.constantFrom(...SPELLINGS),
        fc.array(edits, { minLength: 10, maxLength: 30 }),
        async (changes, spell, all) => {
          const document = Buffer.from(spell(await prove(changes)));
          const recent = recentAfter(document);
          expect(read(document, recent)).toEqual(read(document));
          for (const edit of all) {
            const other = edited(document, edit);
            expect(read(other, recent)).toEqual(read(other));
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  test("never match at a position where JSON allows no value, and no document can contain the placeholder", async () => {
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    const recent = recentAfter(encode(bundle));
    const own = JSON.stringify(leaf);
    const documents = [
      `{"a":"\\"delegations":[${own}]}`,
      `{"a\\"delegations":[${own}]}`,
      `{"delegations":[${own}?]}`,
      `{"delegations":[${own},?]}`,
      `{"x":?,"delegations":[${own}]}`,
      `{"delegations":[${own}${own}]}`,
      `{"delegations":[${own}],"delegations":[${own}]}`,
      `["delegations":[${own}]]`,
      `{"delegations":[${own}`,
      `"delegations":[${own}]`,
      `{"delegations":[${own.slice(0, -1)}]}`,
      `{"é":1,"delegations":[${own}]}`,
      `{"\xff":1,"delegations":[${own}]}`,
    ];
    for (const document of documents) {
      const bytes = Buffer.from(document, document.includes("\xff") ? "latin1" : "utf8");
      const outcomes = [recent, undefined].map((memo) => {
        try {
          return parseJson(bytes, LIMITS, memo);
        } catch (error) {
          return error;
        }
      });
      expect(outcomes[0], document.slice(0, 40)).toEqual(outcomes[1]);
    }
  });

  test("count with all their levels toward the depth limit", async () => {
    const bundle = await prove([{ constraints: [{ type: "geo_polygon", points: TRIANGLE }] }]);
    const document = encode(bundle);
    const recent = recentAfter(document);
    const depthOf = (value: unknown): number =>
      typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
    const depth = depthOf(bundle);
    expect(parseJson(document, { ...LIMITS, depth }, recent)).toEqual(bundle);
    expect(() => parseJson(document, { ...LIMITS, depth: depth - 1 }, recent)).toThrow(/too_deep/);
  });

  test("cannot be changed by callers", async () => {
    const document = encode(await prove());
    const [leaf] = decodeProofBundle(document, recentAfter(document)).delegations as [DelegationCert];
    expect(() => leaf.scope.push("files:read")).toThrow(TypeError);
    expect(() => Object.assign(leaf, { cert_id: "x" })).toThrow(TypeError);
    expect(() => Object.assign(leaf.subject_pub_key, { ed25519: "x" })).toThrow(TypeError);
  });
});

const TRIANGLE: [number, number][] = [
  [0, 0],
  [0, 1],
  [1, 1],
];

describe("verification with a certificate memory", () => {
  test("rejects a certificate that was changed after it was decoded", async () => {
    const certificateMemory = createCertificateMemory();
    const genuine = await prove();
    const [leaf] = genuine.delegations as [DelegationCert];
    const wider = { ...genuine, delegations: [{ ...leaf, scope: ["files:read", "meeting:attend"] }] };
    const document = encode(wider);
    const decoded = decodeProofBundle(document, certificateMemory.recent);
    decoded.delegations[0]?.scope.shift();
    expect(await code(decoded, { certificateMemory })).toBe("valid");
    const again = decodeProofBundle(document, certificateMemory.recent);
    expect(again).toEqual(wider);
    expect(await code(again, { certificateMemory })).toBe("bad_signature");
  });

  test("does not store a certificate that was changed while its signature was checked", async () => {
    const memory = createCertificateMemory();
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    const has = () => {
      leaf.scope.push("files:read");
      return false;
    };
    await code(bundle, { certificateMemory: { ...memory, has } });
    expect(leaf.scope).toEqual(["meeting:attend", "files:read"]);
    expect(memory.recent?.bytesOf(leaf)).toBeUndefined();
    expect(await code(bundle, { certificateMemory: memory })).toBe("bad_signature");
  });

  test("does not recognize a certificate with a changed byte in its signature", async () => {
    const certificateMemory = createCertificateMemory();
    const document = encode(await prove());
    const first = decodeProofBundle(document, certificateMemory.recent);
    expect(await code(first, { certificateMemory })).toBe("valid");
    expect(certificateMemory.recent?.find(Buffer.from(document))).toHaveLength(2);
    const { ml_dsa_65 } = (first.delegations[0] as DelegationCert).signature;
    const forged = Buffer.from(document.toString().replace(ml_dsa_65, tamper(ml_dsa_65)));
    expect(certificateMemory.recent?.find(forged)).toEqual([]);
    const other = decodeProofBundle(forged, certificateMemory.recent);
    expect(await code(other, { certificateMemory })).toBe("bad_signature");
  });

  test("recognizes a certificate by its bytes only after the verification of a bundle that contains these bytes", async () => {
    const certificateMemory = createCertificateMemory();
    const bundle = await prove();
    const document = Buffer.from(encode(bundle));
    const [leaf] = bundle.delegations as [DelegationCert];
    const resolved = decodeDelegationCert(encode(leaf));
    expect(await code({ ...bundle, delegations: [resolved] }, { certificateMemory })).toBe("valid");
    expect(certificateMemory.recent?.find(document)).toEqual([]);
    const read = decodeProofBundle(document, certificateMemory.recent);
    expect(await code(read, { certificateMemory })).toBe("valid");
    expect(certificateMemory.recent?.find(document)).toHaveLength(2);
  });
});

describe("the memory of a certificate's bytes", () => {
  test("evicts the bytes together with the certificate", async () => {
    const documents = await Promise.all(
      ["a", "b", "c"].map(async (cert_id) => encode(await prove([{ cert_id }]))),
    );
    const [{ length }] = documents as [Uint8Array];
    const recent = createRecentCertificates(5 * length);
    for (const document of documents) {
      for (const each of decodeProofBundle(document, recent).delegations) recent.add(each);
    }
    expect(documents.map((document) => recent.find(Buffer.from(document)).length)).toEqual([0, 2, 2]);
  });

  test("stores only the last of two certificates with the same first bytes", async () => {
    const bundles = await Promise.all([1, 2].map(async (n) => prove([{ expires_at: 1_900_000_000 + n }])));
    const [first, second] = bundles.map((bundle) => Buffer.from(encode(bundle))) as [Buffer, Buffer];
    const recent = recentAfter(first);
    for (const each of decodeProofBundle(second, recent).delegations) recent.add(each);
    expect([first, second].map((document) => recent.find(document).length)).toEqual([0, 2]);
    expect(decodeProofBundle(first, recent)).toEqual(bundles[0]);
  });

  test("finds a certificate again after its next use, if a certificate with the same first bytes had replaced it", async () => {
    const bundles = await Promise.all([1, 2].map((n) => prove([{ expires_at: 1_900_000_000 + n }])));
    const [first, second] = bundles.map((bundle) => Buffer.from(encode(bundle))) as [Buffer, Buffer];
    const certificateMemory = createCertificateMemory();
    for (const document of [first, second, first]) {
      const bundle = decodeProofBundle(document, certificateMemory.recent);
      expect(await code(bundle, { certificateMemory })).toBe("valid");
    }
    expect([first, second].map((each) => certificateMemory.recent?.find(each).length)).toEqual([2, 0]);
  });

  test("does not store certificates that are very long in canonical form or in the document", async () => {
    const params = "x".repeat(24_000);
    const long = JSON.stringify(await prove([{ constraints: [{ type: "x", params }] }]));
    const padded = JSON.stringify(await prove()).replace('[{"cert_id"', `[{${" ".repeat(24_000)}"cert_id"`);
    for (const document of [long, padded]) {
      const certificateMemory = createCertificateMemory();
      const answers = [undefined, certificateMemory, certificateMemory].map(async (memory) =>
        code(decodeProofBundle(Buffer.from(document), memory?.recent), { certificateMemory: memory }),
      );
      expect(new Set(await Promise.all(answers)).size).toBe(1);
      const [leaf] = decodeProofBundle(Buffer.from(document)).delegations as [DelegationCert];
      expect(certificateMemory.recent?.bytesOf(leaf)).toBeUndefined();
    }
  });

  test("limits the used memory, not only the length of the JSON", async () => {
    const bundle = await prove();
    const many = Array.from({ length: 7_000 }, () => "{}").join(",");
    const wide = JSON.stringify(bundle).replace(
      '[],"issued_at"',
      `[{"type":"x","params":[${many}]}],"issued_at"`,
    );
    const padded = JSON.stringify(bundle).replace('[{"cert_id"', `[{${" ".repeat(15_000)}"cert_id"`);
    for (const document of [wide, padded]) {
      const found = [5, 100].map((times) => {
        const recent = createRecentCertificates(times * document.length);
        for (const each of decodeProofBundle(Buffer.from(document), recent).delegations) recent.add(each);
        const again = decodeProofBundle(Buffer.from(document)).delegations[0] as DelegationCert;
        return recent.bytesOf(again) !== undefined;
      });
      expect(found).toEqual([document === padded, true]);
    }
  });

  test("recognizes the certificates of a bundle in a body, in base64 and in a header", async () => {
    const bundle = await prove();
    const text = JSON.stringify(bundle);
    const recent = recentAfter(Buffer.from(text));
    const leafOf = (body: object, header?: string) => {
      const bytes = Buffer.from(JSON.stringify({ required_scope: "files:read", ...body }));
      const proof = readVerifyCall({} as ApiKeyCaller, bytes, header, recent).readProof();
      return "bundle" in proof ? proof.bundle.delegations[0] : undefined;
    };
    const kept = decodeProofBundle(Buffer.from(text), recent).delegations[0];
    expect(kept?.subject_id).toBe(AGENT.id);
    expect(leafOf({ proof_bundle: bundle })).toBe(kept);
    expect(leafOf({ proof_bundle: Buffer.from(text).toString("base64url") })).toBe(kept);
    expect(leafOf({}, text)).toBe(kept);
  });
});

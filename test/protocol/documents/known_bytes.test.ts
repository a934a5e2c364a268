import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { readVerifyCall } from "../../../src/proofs/verify/call.ts";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import { decodeProofBundle, type ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { MAX_PROOF_BUNDLE_BYTES } from "../../../src/protocol/encoding/constants.ts";
import { ProtocolError } from "../../../src/protocol/encoding/errors.ts";
import { parseJson } from "../../../src/protocol/encoding/json.ts";
import {
  type CertificateMemory,
  createCertificateMemory,
} from "../../../src/protocol/verification/verify_bundle.ts";
import type { ApiKeyCaller } from "../../../src/route.ts";
import { code } from "../../support/answers.ts";
import { prove } from "../../support/chains.ts";

/** Constraints that decoding normalizes if they have a fraction of zero, or altitudes of 0. */
const CHANGED_BY_DECODING: Constraint[] = [
  { type: "geo_bbox", min_lat: 1, min_lon: 1, max_lat: 2, max_lon: 2 },
  { type: "max_speed_mps", max_mps: 5 },
];

function extension(params: unknown): Constraint {
  return { type: "note", params } as Constraint;
}

async function verdict(document: string, certificateMemory?: CertificateMemory): Promise<string> {
  try {
    const bundle = decodeProofBundle(Buffer.from(document), certificateMemory?.recent);
    return await code(bundle, { certificateMemory });
  } catch (error) {
    if (error instanceof ProtocolError) return `${error.code} ${error.message}`;
    throw error;
  }
}

async function warmedBy(...documents: string[]): Promise<CertificateMemory> {
  const memory = createCertificateMemory();
  for (const document of documents) await verdict(document, memory);
  return memory;
}

describe("verification with a certificate memory", () => {
  test("gives the same answer as without the memory for a certificate that is longer than a bundle may be", async () => {
    const wide = `"delegations":[{${" ".repeat(MAX_PROOF_BUNDLE_BYTES)}`;
    const text = JSON.stringify(await prove()).replace('"delegations":[{', wide);
    const body = Buffer.from(`{"required_scope":"meeting:attend","proof_bundle":${text}}`);
    const certificateMemory = createCertificateMemory();
    for (const memory of [undefined, certificateMemory, certificateMemory]) {
      const proof = readVerifyCall({} as ApiKeyCaller, body, undefined, memory?.recent).readProof();
      const { bundle } = proof as { bundle: ProofBundle };
      expect(await code(bundle, { certificateMemory: memory })).toBe("valid");
    }
  });

  test("gives the same answer as without the memory if an extension has a member named subject_pub_key", async () => {
    for (const key of [1, "x}", { a: {} }, ["}"], null, { "}": 1 }]) {
      const bundle = await prove([{ constraints: [extension({ subject_pub_key: key })] }]);
      const text = JSON.stringify(bundle, (_, value) =>
        "cert_id" in Object(value)
          ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
          : value,
      );
      const certificateMemory = createCertificateMemory();
      expect(await verdict(text, certificateMemory)).toBe("constraint_unknown");
      expect(await verdict(text, certificateMemory)).toBe("constraint_unknown");
    }
  });

  test("gives the same answer as without the memory if an extension in a certificate contains a known certificate", async () => {
    const inner = await prove([{ constraints: CHANGED_BY_DECODING }]);
    const own = JSON.stringify(inner.delegations[0]);
    const outer = await prove([{ constraints: [extension({ delegations: [inner.delegations[0]] })] }]);
    const text = JSON.stringify(outer).replace('"delegations":[', '"delegations" :[');
    const spellings = {
      constraint_unknown: own,
      invalid_integer: own.replace('"max_mps":5', '"max_mps":5.0'),
      bad_signature: own.replace('"max_lon":2', '"max_lon":2,"min_alt_m":0,"max_alt_m":0'),
    };
    for (const [expected, spelled] of Object.entries(spellings)) {
      const innerText = JSON.stringify(inner).replace(own, spelled);
      const document = text.replace(own, spelled);
      expect(await verdict(document)).toMatch(new RegExp(`^${expected}`));
      // The second memory knows two spellings of the certificate, because their signed bytes are the same.
      for (const memory of [await warmedBy(innerText), await warmedBy(text, innerText)]) {
        expect(await verdict(document, memory)).toBe(await verdict(document));
      }
    }
  });
});

describe("a document with known bytes", () => {
  let known: { document: string; certificates: string[]; key: string };
  let memory: CertificateMemory;

  beforeAll(async () => {
    const bundle = await prove([{ constraints: CHANGED_BY_DECODING }, {}]);
    const document = JSON.stringify(bundle)
      .replace('"max_mps":5', '"max_mps":5.0')
      .replace('"max_lon":2', '"max_lon":2,"min_alt_m":0,"max_alt_m":0');
    const [first = "", second = ""] = bundle.delegations.map((each) => JSON.stringify(each));
    const spelled = document.slice(document.indexOf('"delegations":[') + 15, document.indexOf(`,${second}`));
    expect(spelled.length).toBeGreaterThan(first.length);
    known = { document, certificates: [spelled, second], key: JSON.stringify(bundle.agent_pub_key) };
    memory = await warmedBy(document);
    expect(memory.recent?.find(Buffer.from(document))).toHaveLength(3);
  });

  type Make = () => string;
  const DELEGATIONS = '"delegations"';
  const names = fc.oneof(
    { weight: 3, arbitrary: fc.constant(DELEGATIONS) },
    fc.constantFrom('"agent_pub_key"', '"subject_pub_key"', '"constraints"', '"a"', '"?"'),
    fc.constantFrom('"\\u0064elegations"', '"x\\"delegations"'),
  );
  const leaves = ["1", "-0", "1.0", '"?"', "?", '"é"', '"\\u0000"', "[]", "{}", "null", '"', "\ufeff"];
  const gap = fc.constantFrom("", "", "", "", "", " ", "\r\n\t");
  const part = fc.constantFrom("first", "second", "key");
  const text = (name: string) =>
    name === "key" ? known.key : (known.certificates[name === "first" ? 0 : 1] ?? "");
  const leaf: fc.Arbitrary<Make> = fc.oneof(
    { weight: 30, arbitrary: part.map((name) => () => text(name)) },
    { weight: 3, arbitrary: fc.constantFrom(...leaves).map((written) => () => written) },
    part.map((name) => () => JSON.stringify(text(name))),
    fc.tuple(part, fc.integer({ min: -80, max: 80 })).map(
      ([name, cut]) =>
        () =>
          text(name).slice(cut),
    ),
  );

  /** Generates mostly valid JSON that contains known bytes at random positions. */
  function tree(depth: number): fc.Arbitrary<Make> {
    if (depth === 0) return leaf;
    const list = fc
      .array(fc.tuple(gap, fc.oneof(leaf, tree(depth - 1)), gap), { maxLength: 3 })
      .map((items) => () => `[${items.map(([a, value, b]) => a + value() + b).join(",")}]`);
    const chain = fc.tuple(part, list).map(
      ([name, others]) =>
        () =>
          `[${text(name)},${others()}]`,
    );
    const member = fc.oneof(
      fc.tuple(names, gap, gap, fc.oneof(list, list, tree(depth - 1))),
      fc.tuple(fc.constant(DELEGATIONS), fc.constant(""), gap, chain),
    );
    return fc
      .uniqueArray(member, { minLength: 1, maxLength: 4, selector: ([name]) => name })
      .map((members) =>
        members.map(
          ([name, a, b, value]) =>
            () =>
              `${name}${a}:${b}${value()}`,
        ),
      )
      .map((members) => () => `{${members.map((make) => make()).join(",")}}`);
  }

  test("gives the same value or error as without the memory, for every size and depth limit", () => {
    let taken = 0;
    fc.assert(
      fc.property(tree(3), fc.integer({ min: 3, max: 14 }), fc.nat(9), (make, depth, over) => {
        const bytes = Buffer.from(make());
        const limits = { bytes: Math.max(1, bytes.length - (over === 0 ? 1 : 0)), depth };
        const [plain, warm] = [undefined, memory.recent].map((memo) => {
          try {
            return parseJson(bytes, limits, memo);
          } catch (error) {
            return error;
          }
        });
        expect(warm).toStrictEqual(plain);
        if (typeof plain === "object" && !(plain instanceof Error)) {
          taken += memory.recent?.find(bytes).length ? 1 : 0;
        }
      }),
      { numRuns: 600 },
    );
    expect(taken).toBeGreaterThan(40);
  });
});

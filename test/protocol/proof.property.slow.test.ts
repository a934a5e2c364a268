import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { decodeProofBundle, type ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { canonicalJson } from "../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { type VerifyOptions, verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";
import { listed } from "../support/answers.ts";
import { bytes32, encode, NOW, prove } from "../support/chains.ts";
import { bindings, CONTEXT, certificates } from "../support/proof_arbitraries.ts";
import { flipBit, refusal } from "../support/tampering.ts";

function optionsFor(bundle: ProofBundle): VerifyOptions {
  return {
    now: NOW,
    required_scope: "files:read",
    context: CONTEXT,
    session_context: bundle.session_context,
    stream: bundle.stream_id === undefined ? undefined : { stream_id: bundle.stream_id, last_seen_seq: 0 },
  };
}

describe("any valid proof", () => {
  test("passes decoding and verification, with the same result from both implementations", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(certificates, { minLength: 1, maxLength: 3 }),
        bindings,
        async (changes, binding) => {
          const bundle = await prove(changes, binding);
          const decoded = decodeProofBundle(encode(bundle));
          const [native, reference] = await Promise.all([
            verifyBundle(decoded, optionsFor(bundle)),
            verifyBundle(decoded, { ...optionsFor(bundle), backend: "reference" }),
          ]);
          expect(native.error_reason).toBeUndefined();
          expect(listed(reference)).toEqual(listed(native));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("fails verification after a change of any single bit", async () => {
    await fc.assert(
      fc.asyncProperty(
        certificates,
        bindings,
        fc.array(fc.nat(), { minLength: 40, maxLength: 40 }),
        async (change, binding, bits) => {
          const bundle = await prove([change], binding);
          const document = encode(bundle);
          for (const bit of bits) {
            const changed = flipBit(document, bit);
            const reason = await refusal(changed, optionsFor(bundle));
            if (reason === undefined) {
              expect(canonicalJson(decodeProofBundle(changed))).toBe(canonicalJson(bundle));
            }
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("a simple proof", () => {
  let document: Uint8Array;
  let options: VerifyOptions;

  beforeAll(async () => {
    const bundle = await prove([{ scope: ["files:read"] }], { session_context: bytes32(1) });
    document = encode(bundle);
    options = optionsFor(bundle);
  });

  test("fails decoding or verification after a change of any single bit", async () => {
    expect(await refusal(document, options)).toBeUndefined();
    await fc.assert(
      fc.asyncProperty(fc.nat(document.length * 8 - 1), async (bit) => {
        expect(await refusal(flipBit(document, bit), options)).toBeDefined();
      }),
      { numRuns: 3_000 },
    );
  });

  test("gets the same result from both implementations after a change of any bit of a key or signature", async () => {
    const texts = [
      ...Buffer.from(document)
        .toString("latin1")
        .matchAll(/"([A-Za-z0-9+/]{40,}={0,2})"/g),
    ];
    await fc.assert(
      fc.asyncProperty(fc.nat(texts.length - 1), fc.nat(), async (which, bit) => {
        const [, text = "", at = 0] = [...(texts[which] ?? []), texts[which]?.index];
        const changed = Buffer.from(document);
        const bytes = flipBit(Buffer.from(String(text), "base64"), bit);
        changed.write(Buffer.from(bytes).toString("base64"), Number(at) + 1, "latin1");
        const bundle = decodeProofBundle(changed);
        const native = await verifyBundle(bundle, options);
        expect(native.valid).toBe(false);
        const reference = await verifyBundle(bundle, { ...options, backend: "reference" });
        expect(listed(reference)).toEqual(listed(native));
      }),
      { numRuns: 300 },
    );
  });

  test("fails with a protocol error or a violation if pieces of it are cut, duplicated or moved", async () => {
    const position = fc.nat(document.length);
    await fc.assert(
      fc.asyncProperty(position, position, position, async (a, b, c) => {
        const [from = 0, to = 0] = [a, b].sort((left, right) => left - right);
        const piece = document.subarray(from, to);
        const rest = Buffer.concat([document.subarray(0, from), document.subarray(to)]);
        const moved = Buffer.concat([rest.subarray(0, c), piece, rest.subarray(c)]);
        for (const changed of [
          rest,
          moved,
          Buffer.concat([document.subarray(0, to), document.subarray(from)]),
        ]) {
          if (Buffer.compare(changed, document) !== 0) expect(await refusal(changed, options)).toBeDefined();
        }
      }),
      { numRuns: 300 },
    );
  });
});

test("decoding a random document fails with a protocol error", () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 20 }),
    fc.constantFrom(...'{}[]",:\\0-1.5e9tn'.split("")).map((text) => Buffer.from(text)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      expect(() => decodeProofBundle(Buffer.concat(pieces))).toThrow(ProtocolError);
    }),
    { numRuns: 3_000 },
  );
});

import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { decodeProofBundle, type ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";
import digestsKept from "../vectors/digests.json" with { type: "json" };
import { digests, KEPT_FILES, VECTOR_FILES, vectorOf, withExample, writeVectors } from "../vectors/make.ts";
import { negativeCases } from "../vectors/make_negative.ts";
import { VERIFY_CASES } from "../vectors/verify_cases.ts";
import { runConformance } from "./run.ts";
import type { Vector } from "./vector.ts";
import { optionsOf } from "./verify.ts";

const FOLDER = resolve(import.meta.dirname, "../vectors");

describe("the project's own vectors", () => {
  test("pass the conformance run", async () => {
    const folder = await mkdtemp(join(tmpdir(), "own-vectors-"));
    try {
      writeVectors(folder);
      const outcomes = await runConformance(join(folder, "conformance"));
      expect(outcomes.filter(({ mismatches }) => mismatches.length > 0)).toEqual([]);
      expect(outcomes.length).toBeGreaterThan(VERIFY_CASES.length + 20);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("have the digests that the repository contains", () => {
    expect(digests()).toEqual(digestsKept);
  });

  test("equal the vector files in the repository, to which the documentation links", async () => {
    for (const name of KEPT_FILES) {
      const kept: unknown = JSON.parse(await readFile(resolve(FOLDER, name), "utf8"));
      expect(kept, name).toEqual(JSON.parse(JSON.stringify(VECTOR_FILES.get(name)?.())));
    }
  });

  test("produce the documentation's worked example", async () => {
    const page = await readFile(resolve(FOLDER, "../../docs/wire_format.md"), "utf8");
    expect(page).toBe(withExample(page));
    expect(page).toContain("SHA-256");
  });

  test("show the hashed bytes of a bound proof, which give the shown hashes without the project's code", async () => {
    const page = await readFile(resolve(FOLDER, "../../docs/wire_format.md"), "utf8");
    const shown = [
      ...page.matchAll(/^((?:[0-9a-f]+(?: [0-9a-f]+)?\n)+)\n(request_hash|session_context) (\w{64})$/gm),
    ];
    expect(shown.map(([, , name]) => name)).toEqual(["request_hash", "session_context"]);
    for (const [, lines = "", name, hash] of shown) {
      const bytes = Buffer.from(lines.replaceAll(/\s/g, ""), "hex");
      expect([name, createHash("sha256").update(bytes).digest("hex")]).toEqual([name, hash]);
    }
    const [, payload = "", digest] = /^(\{.*\})\n\npayload_digest (\w{64})$/m.exec(page) ?? [];
    expect(createHash("sha256").update(payload).digest("hex")).toBe(digest);
  });

  test.each(VERIFY_CASES.filter(({ code }) => code !== undefined))(
    "fail verification in case $name with $code",
    async ({ name, code }) => {
      const vector = vectorOf(name) as Vector & { bundle: ProofBundle };
      const bundle = decodeProofBundle(Buffer.from(JSON.stringify(vector.bundle)));
      expect((await verifyBundle(bundle, optionsOf(vector, bundle.delegations))).violation?.code).toBe(code);
    },
  );

  test("include malformed documents that fail decoding with the expected reason", () => {
    for (const { name, code, doc_b64 } of negativeCases().cases) {
      expect(() => decodeProofBundle(Buffer.from(doc_b64, "base64")), name).toThrow(
        expect.objectContaining({ code }),
      );
    }
  });
});

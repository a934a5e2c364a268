import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { decodeProofBundle, type ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { verifyBundle } from "../../src/protocol/verification/verify.ts";
import { vectorFiles, withExample } from "../vectors/make.ts";
import { VERIFY_CASES } from "../vectors/verify_cases.ts";
import { runConformance } from "./run.ts";
import type { Vector } from "./vector.ts";
import { optionsOf } from "./verify.ts";

const FOLDER = resolve(import.meta.dirname, "../vectors");

describe("the project's own vectors", () => {
  test("all pass the conformance run", async () => {
    const outcomes = await runConformance(resolve(FOLDER, "conformance"));
    expect(outcomes.filter(({ mismatches }) => mismatches.length > 0)).toEqual([]);
    expect(outcomes.length).toBeGreaterThan(VERIFY_CASES.length + 20);
  });

  test("are what their program makes, to the byte", async () => {
    for (const [name, content] of vectorFiles()) {
      const kept: unknown = JSON.parse(await readFile(resolve(FOLDER, name), "utf8"));
      expect(kept, name).toEqual(JSON.parse(JSON.stringify(content)));
    }
  });

  test("are where the worked example of the documentation comes from", async () => {
    const page = await readFile(resolve(FOLDER, "../../docs/wire_format.md"), "utf8");
    expect(page).toBe(withExample(page));
    expect(page).toContain("SHA-256");
  });

  test.each(VERIFY_CASES.filter(({ code }) => code !== undefined))(
    "$name is refused with $code",
    async ({ name, code }) => {
      const vector = (await read(`conformance/v1/${name}.json`)) as Vector & { bundle: ProofBundle };
      const bundle = decodeProofBundle(Buffer.from(JSON.stringify(vector.bundle)));
      expect((await verifyBundle(bundle, optionsOf(vector, bundle.delegations))).violation?.code).toBe(code);
    },
  );

  test("of malformed documents are refused for what is wrong with them", async () => {
    const { cases } = (await read("conformance/wire-negative/cases.json")) as {
      cases: Record<"name" | "code" | "doc_b64", string>[];
    };
    for (const { name, code, doc_b64 } of cases) {
      expect(() => decodeProofBundle(Buffer.from(doc_b64, "base64")), name).toThrow(
        expect.objectContaining({ code }),
      );
    }
  });
});

async function read(name: string): Promise<unknown> {
  return JSON.parse(await readFile(resolve(FOLDER, name), "utf8"));
}

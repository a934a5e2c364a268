import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runConformance, type VectorResult } from "./run.ts";

type Json = Record<string, unknown>;

const OWN = resolve(import.meta.dirname, "../vectors/conformance/v1");
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "vectors-"));
  await mkdir(join(folder, "v1"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** The results of the vectors of one of the project's own files after a change. */
async function outcomesOf(name: string, change?: (document: Json) => void): Promise<VectorResult[]> {
  const document: Json = JSON.parse(await readFile(join(OWN, name), "utf8"));
  change?.(document);
  await writeFile(join(folder, "v1", name), JSON.stringify(document));
  return runConformance(folder);
}

const failed = (outcomes: VectorResult[]) => outcomes.filter(({ mismatches }) => mismatches.length > 0);
const checks = (outcomes: VectorResult[]) =>
  outcomes.flatMap(({ mismatches }) => mismatches.map(({ check }) => check));

describe("a reason", () => {
  const FILES: [string, string, "code" | "sentence"][] = [
    ["own_transaction_receipt_stale_proof.json", "receipt_error_reason", "code"],
    ["own_key_rotation_bad_signature.json", "key_rotation_error_reason", "sentence"],
    ["own_revoked_root.json", "error_reason", "sentence"],
    ["own_broken_chain.json", "error_reason", "code"],
  ];

  test.each(FILES)("of %s is compared: %s, by its %s", async (file, name, fixed) => {
    const because = (change: (reason: string) => string) => (document: Json) => {
      const expected = document.expected as Json;
      const place = (name === "error_reason" ? expected.verify_result : expected) as Record<string, string>;
      place[name] = change(place[name] ?? "");
    };
    const changed = [`code of ${name}`];
    expect(checks(await outcomesOf(file))).toEqual([]);
    const longer = await outcomesOf(
      file,
      because((reason) => `${reason} and more`),
    );
    expect(checks(longer)).toEqual(fixed === "code" ? [] : changed);
    expect(
      checks(
        await outcomesOf(
          file,
          because(() => "another_code: and why"),
        ),
      ),
    ).toEqual(changed);
    expect(
      checks(
        await outcomesOf(
          file,
          because(() => "another sentence"),
        ),
      ),
    ).toEqual(changed);
  });

  test("that decoding refuses a document for is compared, unless verification has the vector's reason for it", async () => {
    const bored = (reason: string) => (document: Json) => {
      Object.assign(document.key_rotation as Json, { reason: "bored" });
      Object.assign(document.expected as Json, { key_rotation_error_reason: reason });
    };
    const file = "own_key_rotation_bad_signature.json";
    const known = await outcomesOf(file, bored("unknown key rotation reason: bored"));
    expect(checks(known)).toEqual(["signed bytes"]);
    const other = await outcomesOf(file, bored("old_id and new_id must differ"));
    expect(checks(other)).toEqual(["signed bytes", "code of key_rotation_error_reason"]);
  });
});

describe("a vector that expects revoked", () => {
  const naming = (revoked: unknown) => (document: Json) => {
    const { verify_options } = document.expected as { verify_options: Json };
    Object.assign(verify_options, { revoked });
  };
  const LEAF = "00000000-0000-4000-8000-000000000000";
  const ROOT = "00000000-0000-4000-8000-000000000001";

  test.each([[], false, ROOT, [ROOT], true])(
    "means the last certificate of its chain with %j",
    async (named) => {
      expect(failed(await outcomesOf("own_revoked_root.json", naming(named)))).toEqual([]);
    },
  );

  test.each(["somebody", ["somebody"], 1])("means no other than is named with %j", async (named) => {
    expect(failed(await outcomesOf("own_revoked_root.json", naming(named)))).toHaveLength(1);
  });

  test("means the one that is named, before what is wrong with the others", async () => {
    expect(failed(await outcomesOf("own_revoked_leaf.json", naming(LEAF)))).toEqual([]);
    expect(checks(await outcomesOf("own_revoked_leaf.json", naming(ROOT)))).toContain("identity_status");
  });
});

describe("a list of vectors", () => {
  const FILE = "own_cross_vectors.json";

  test("is run, one outcome each", async () => {
    const outcomes = await outcomesOf(FILE);
    expect(failed(outcomes)).toEqual([]);
    expect(outcomes.map(({ kind }) => kind)).toEqual([
      ...Array.from({ length: 5 }, () => "bundle_hash"),
      "verification_receipt_sign_bytes",
    ]);
  });

  test("fails where a hash or bytes are others", async () => {
    const outcomes = await outcomesOf(FILE, ({ vectors }) => {
      for (const vector of vectors as Json[]) {
        vector["expected_hash_hex" in vector ? "expected_hash_hex" : "expected_bytes_b64"] = "00";
      }
    });
    expect(failed(outcomes)).toHaveLength(6);
  });

  test.each([
    ["of an unknown kind", { kind: "surprise" }],
    ["with a member that is not known", { novelty: 1 }],
    ["with nothing to compare", { expected_hash_hex: undefined }],
    ["with both a hash and bytes", { expected_bytes_b64: "" }],
  ])("fails one %s, and runs the others", async (_, change) => {
    const outcomes = await outcomesOf(FILE, ({ vectors }) => {
      Object.assign((vectors as Json[])[0] ?? {}, change);
    });
    expect([failed(outcomes).length, outcomes.length]).toEqual([1, 6]);
  });
});

test.each([
  "v1/notes.txt",
  "v1/deeper/own_no_expiry.json",
  "v1/README.md",
  "v2/own_no_expiry.json",
  "own_no_expiry.json",
  "wire-negative/cases.json.gz",
])("the file %s of a folder is not known, and fails", async (path) => {
  await mkdir(dirname(join(folder, path)), { recursive: true });
  await cp(join(OWN, "own_no_expiry.json"), join(folder, path));
  const outcomes = await outcomesOf("own_no_expiry.json");
  expect(failed(outcomes)).toMatchObject([{ kind: "file", name: path }]);
  expect(outcomes).toHaveLength(2);
});

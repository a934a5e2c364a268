import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { vectorOf } from "../vectors/make.ts";
import { runConformance, type VectorResult } from "./run.ts";

type Json = Record<string, unknown>;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "vectors-"));
  await mkdir(join(folder, "v1"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** Returns the results of one of the project's vectors, or of its list of vectors, after a change. */
async function outcomesOf(name: string, change?: (document: Json) => void): Promise<VectorResult[]> {
  const document = vectorOf(name);
  change?.(document);
  await writeFile(join(folder, "v1", `${name}.json`), JSON.stringify(document));
  return runConformance(folder);
}

const failed = (outcomes: VectorResult[]) => outcomes.filter(({ mismatches }) => mismatches.length > 0);
const checks = (outcomes: VectorResult[]) =>
  outcomes.flatMap(({ mismatches }) => mismatches.map(({ check }) => check));
const resultOf = ({ expected }: Json) => (expected as Json).verify_result as Json;

describe("a vector", () => {
  test.each<[string, (document: Json) => void, string]>([
    ["a different outcome", (document) => Object.assign(resultOf(document), { valid: false }), "valid"],
    [
      "different signed bytes",
      ({ expected }) => Object.assign(expected as Json, { challenge_sign_bytes_hex: "00" }),
      "signed bytes of the challenge",
    ],
    ["an unknown kind", (document) => Object.assign(document, { kind: "surprise" }), "kind"],
    [
      "an unknown option",
      ({ expected }) => Object.assign((expected as Json).verify_options as Json, { novelty: 1 }),
      "the vector can be run",
    ],
    [
      "an unknown context field",
      (document) => Object.assign(document, { verifier_context: { current_mood: 1 } }),
      "the vector can be run",
    ],
  ])("fails with %s", async (_, change, check) => {
    expect(checks(await outcomesOf("own_no_expiry"))).toEqual([]);
    expect(checks(await outcomesOf("own_no_expiry", change))).toEqual([check]);
  });
});

describe("the reason in a result", () => {
  test.each<[string, string, "code" | "sentence"]>([
    ["own_transaction_receipt_stale_proof", "receipt_error_reason", "code"],
    ["own_key_rotation_bad_signature", "key_rotation_error_reason", "sentence"],
    ["own_revoked_root", "error_reason", "sentence"],
    ["own_broken_chain", "error_reason", "code"],
  ])("must match the reason that vector %s expects in %s, compared by %s", async (name, member, fixed) => {
    const failuresOf = async (change: (reason: string) => string) =>
      checks(
        await outcomesOf(name, (document) => {
          const place = member === "error_reason" ? resultOf(document) : (document.expected as Json);
          place[member] = change(String(place[member] ?? ""));
        }),
      );
    const changed = [`code of ${member}`];
    expect(await failuresOf((reason) => reason)).toEqual([]);
    expect(await failuresOf((reason) => `${reason} and more`)).toEqual(fixed === "code" ? [] : changed);
    expect(await failuresOf(() => "another_code: and why")).toEqual(changed);
    expect(await failuresOf(() => "another sentence")).toEqual(changed);
  });

  test("may be a decoding error if the vector expects the same fault, but not if it expects a different fault", async () => {
    const bored = (reason: string) =>
      outcomesOf("own_key_rotation_bad_signature", (document) => {
        Object.assign(document.key_rotation as Json, { reason: "bored" });
        Object.assign(document.expected as Json, { key_rotation_error_reason: reason });
      });
    expect(checks(await bored("unknown key rotation reason: bored"))).toEqual(["signed bytes"]);
    expect(checks(await bored("old_id and new_id must differ"))).toEqual([
      "signed bytes",
      "code of key_rotation_error_reason",
    ]);
  });

  test("may be a decoding error of a bundle if the vector expects a malformed bundle, but not otherwise", async () => {
    const cut = (error_reason: string) =>
      outcomesOf("own_broken_chain", (document) => {
        Object.assign(document.bundle as Json, { session_context: "AAAA" });
        Object.assign(resultOf(document), { error_reason });
      });
    expect(checks(await cut("invalid_session_context: not 32 bytes"))).not.toContain("code of error_reason");
    expect((await cut("broken_chain: "))[0]?.mismatches).toContainEqual({
      check: "code of error_reason",
      expected: "broken_chain",
      got: "wrong_length",
    });
  });
});

describe("the check of a vector that expects the status revoked", () => {
  const naming = (revoked: unknown) => (document: Json) => {
    const { verify_options } = document.expected as { verify_options: Json };
    Object.assign(verify_options, { revoked });
  };
  const LEAF = "00000000-0000-4000-8000-000000000000";
  const ROOT = "00000000-0000-4000-8000-000000000001";

  test.each([[], false, ROOT, [ROOT], true])(
    "revokes the last certificate of the chain if the option revoked is %j",
    async (named) => {
      expect(failed(await outcomesOf("own_revoked_root", naming(named)))).toEqual([]);
    },
  );

  test.each(["somebody", ["somebody"], 1])(
    "revokes no certificate of the chain if the option revoked is %j",
    async (named) => {
      expect(failed(await outcomesOf("own_revoked_root", naming(named)))).toHaveLength(1);
    },
  );

  test("revokes the named certificate before it reports faults of other certificates", async () => {
    expect(failed(await outcomesOf("own_revoked_leaf", naming(LEAF)))).toEqual([]);
    expect(checks(await outcomesOf("own_revoked_leaf", naming(ROOT)))).toContain("identity_status");
  });
});

describe("the check of a list of vectors", () => {
  const NAME = "own_cross_vectors";

  test("returns one outcome for each vector", async () => {
    const outcomes = await outcomesOf(NAME);
    expect(failed(outcomes)).toEqual([]);
    expect(outcomes.map(({ kind }) => kind)).toEqual([
      ...Array.from({ length: 5 }, () => "bundle_hash"),
      "verification_receipt_sign_bytes",
    ]);
  });

  test("reports a failure for each vector whose hash or bytes differ", async () => {
    const outcomes = await outcomesOf(NAME, ({ vectors }) => {
      for (const vector of vectors as Json[]) {
        vector["expected_hash_hex" in vector ? "expected_hash_hex" : "expected_bytes_b64"] = "00";
      }
    });
    expect(failed(outcomes)).toHaveLength(6);
  });

  test.each([
    ["vector of an unknown kind", { kind: "surprise" }],
    ["vector with an unknown member", { novelty: 1 }],
    ["vector with nothing to compare", { expected_hash_hex: undefined }],
    ["vector with both a hash and bytes", { expected_bytes_b64: "" }],
  ])("reports a failure for a %s, and runs the other vectors", async (_, change) => {
    const outcomes = await outcomesOf(NAME, ({ vectors }) => {
      Object.assign((vectors as Json[])[0] ?? {}, change);
    });
    expect([failed(outcomes).length, outcomes.length]).toEqual([1, 6]);
  });
});

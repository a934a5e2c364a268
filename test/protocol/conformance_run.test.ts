import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const PROJECT = resolve(import.meta.dirname, "../..");
const OWN = resolve(PROJECT, "test/vectors/conformance");
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "vectors-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** Runs the command on the folder; gives its exit code and what it printed. */
function run(...others: string[]): Promise<{ code: number; printed: string }> {
  return new Promise((done) => {
    execFile(
      process.execPath,
      ["test/conformance.ts", folder, ...others],
      { cwd: PROJECT },
      (error, stdout, stderr) => {
        done({ code: error === null ? 0 : Number(error.code), printed: stdout + stderr });
      },
    );
  });
}

async function copy(name: string, change?: (vector: Record<string, unknown>) => void): Promise<void> {
  await mkdir(join(folder, "v1"), { recursive: true });
  const vector = JSON.parse(await readFile(join(OWN, "v1", name), "utf8"));
  change?.(vector);
  await writeFile(join(folder, "v1", name), JSON.stringify(vector));
}

describe("the conformance command", () => {
  test("fails when there is nothing to run", async () => {
    const { code, printed } = await run();
    expect(code).toBe(1);
    expect(printed).toContain("no vectors were found");
  });

  test("fails when the folder is not there, or is a file", async () => {
    const whole = folder;
    await writeFile(join(whole, "file"), "");
    for (const name of ["absent", "file"]) {
      folder = join(whole, name);
      const { code, printed } = await run();
      expect(code).toBe(1);
      expect(printed).toContain("no vectors were found");
    }
    folder = whole;
  });

  test("fails when both parts are there and empty", async () => {
    await mkdir(join(folder, "v1"));
    await mkdir(join(folder, "wire-negative"));
    expect(await run()).toMatchObject({ code: 1, printed: expect.stringContaining("no vectors were found") });
  });

  test("takes one folder, and says so", async () => {
    expect(await run("another")).toMatchObject({ code: 2, printed: expect.stringContaining("Usage") });
  });

  test("passes vectors alone, and counts them by kind", async () => {
    await copy("own_no_expiry.json");
    const { code, printed } = await run();
    expect(code).toBe(0);
    expect(printed).toMatch(/verify +1\/1/);
    expect(printed).toContain("1 passed, 0 failed");
  });

  test("passes malformed documents alone", async () => {
    await cp(join(OWN, "wire-negative"), join(folder, "wire-negative"), { recursive: true });
    const { code, printed } = await run();
    expect(code).toBe(0);
    expect(printed).toMatch(/wire-negative +(\d+)\/\1/);
  });

  test("fails a vector whose outcome is another, with expected and got", async () => {
    await copy("own_no_expiry.json", (vector) => {
      (vector as { expected: { verify_result: { valid: boolean } } }).expected.verify_result.valid = false;
    });
    const { code, printed } = await run();
    expect(code).toBe(1);
    expect(printed).toMatch(/own_no_expiry\n +valid\n +expected false\n +got +true/);
  });

  test("fails a vector that is refused for another reason, and compares no more of it than the code", async () => {
    const because = (error_reason: string) => (vector: Record<string, unknown>) => {
      (
        vector as { expected: { verify_result: { error_reason: string } } }
      ).expected.verify_result.error_reason = error_reason;
    };
    await copy("own_broken_chain.json", because("broken_chain: in other words"));
    expect(await run()).toMatchObject({ code: 0 });
    await copy("own_broken_chain.json", because("stale_challenge: challenge is 600 seconds old (max 300)"));
    const { code, printed } = await run();
    expect(code).toBe(1);
    expect(printed).toMatch(
      /own_broken_chain\n +code of error_reason\n +expected "stale_challenge"\n +got +"broken_chain"/,
    );
  });

  test("fails a vector that decoding refuses, unless what it expects is a fault of shape", async () => {
    const unreadable = (error_reason: string) => (vector: Record<string, unknown>) => {
      const { bundle, expected } = vector as {
        bundle: { session_context?: string };
        expected: { verify_result: { error_reason: string } };
      };
      bundle.session_context = "AAAA";
      expected.verify_result.error_reason = error_reason;
    };
    const fixed = async (error_reason: string) => {
      await copy("own_broken_chain.json", unreadable(error_reason));
      return (await run()).printed;
    };
    expect(await fixed("invalid_session_context: not 32 bytes")).not.toContain("code of error_reason");
    expect(await fixed("broken_chain: ")).toMatch(
      /code of error_reason\n +expected "broken_chain"\n +got +"wrong_length"/,
    );
  });

  test.each([
    ["own_transaction_receipt_stale_proof.json", "receipt_error_reason", "party_bundle_invalid"],
    ["own_key_rotation_bad_signature.json", "key_rotation_error_reason", undefined],
    ["own_revoked_root.json", "verify_result", undefined],
  ])(
    "compares the reason of %s: the code, or the whole sentence where there is none",
    async (file, member, code) => {
      const because = (change: (reason: string) => string) => (vector: Record<string, unknown>) => {
        const { expected } = vector as { expected: Record<string, unknown> };
        const place = (member === "verify_result" ? expected.verify_result : expected) as Record<
          string,
          string
        >;
        const name = member === "verify_result" ? "error_reason" : member;
        place[name] = change(place[name] ?? "");
      };
      await copy(file);
      expect(await run()).toMatchObject({ code: 0 });
      await copy(
        file,
        because((reason) => `${reason} and more`),
      );
      expect(await run()).toMatchObject({ code: code === undefined ? 1 : 0 });
      await copy(
        file,
        because(() => "another_code: with a detail"),
      );
      const { printed, code: ended } = await run();
      expect(ended).toBe(1);
      expect(printed).toMatch(/code of \w*error_reason\n +expected "another_code"/);
    },
  );

  test("fails a document that decoding refuses and whose vector expects another reason than that", async () => {
    const renamed = (reason: string) => (vector: Record<string, unknown>) => {
      const { key_rotation, expected } = vector as Record<
        "key_rotation" | "expected",
        Record<string, unknown>
      >;
      Object.assign(key_rotation, { reason: "bored" });
      Object.assign(expected, { key_rotation_error_reason: reason });
    };
    await copy("own_key_rotation_bad_signature.json", renamed("unknown key rotation reason: bored"));
    expect((await run()).printed).not.toContain("code of key_rotation_error_reason");
    await copy("own_key_rotation_bad_signature.json", renamed("old_id and new_id must differ"));
    expect((await run()).printed).toContain("code of key_rotation_error_reason");
  });

  test("takes the last certificate of a chain for revoked where none is named, and no other where one is", async () => {
    await copy("own_revoked_root.json");
    await copy("own_revoked_leaf.json");
    expect(await run()).toMatchObject({ code: 0 });
    const named = (revoked: unknown) => (vector: Record<string, unknown>) => {
      const { expected } = vector as { expected: { verify_options: Record<string, unknown> } };
      Object.assign(expected.verify_options, { revoked });
    };
    for (const value of ["00000000-0000-4000-8000-000000000001", true, []]) {
      await copy("own_revoked_root.json", named(value));
      expect(await run()).toMatchObject({ code: 0 });
    }
    for (const value of ["somebody", ["somebody"], 1]) {
      await copy("own_revoked_root.json", named(value));
      expect(await run()).toMatchObject({ code: 1, printed: expect.stringContaining("1 passed, 1 failed") });
    }
  });

  test("runs every vector of a list, and fails one whose hash or bytes are others", async () => {
    await copy("own_cross_vectors.json");
    const { code, printed } = await run();
    expect(code).toBe(0);
    expect(printed).toMatch(/bundle_hash +5\/5/);
    expect(printed).toMatch(/verification_receipt_sign_bytes +1\/1/);
    await copy("own_cross_vectors.json", ({ vectors }) => {
      for (const vector of vectors as Record<string, string>[]) {
        const name = "expected_hash_hex" in vector ? "expected_hash_hex" : "expected_bytes_b64";
        vector[name] = "00";
      }
    });
    expect(await run()).toMatchObject({ code: 1, printed: expect.stringContaining("0 passed, 6 failed") });
  });

  test.each([
    ["of an unknown kind", { kind: "surprise" }],
    ["with a member that it does not know", { novelty: 1 }],
    ["with nothing to compare", { expected_hash_hex: undefined }],
    ["with both a hash and bytes", { expected_bytes_b64: "" }],
  ])("fails a vector %s in a list", async (_, change) => {
    await copy("own_cross_vectors.json", (document) => {
      Object.assign((document.vectors as object[])[0] ?? {}, change);
    });
    expect(await run()).toMatchObject({ code: 1, printed: expect.stringContaining("5 passed, 1 failed") });
  });

  test.each([
    "v1/notes.txt",
    "v1/deeper/own_no_expiry.json",
    "v2/own_no_expiry.json",
    "own_no_expiry.json",
    "wire-negative/cases.json.gz",
    "v1/README.md",
  ])("fails a folder with the file %s, which it does not know", async (path) => {
    await copy("own_no_expiry.json");
    await writeFile(join(folder, "README.md"), "what these vectors are");
    expect(await run()).toMatchObject({ code: 0 });
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await cp(join(OWN, "v1", "own_no_expiry.json"), join(folder, path));
    const { code, printed } = await run();
    expect(code).toBe(1);
    expect(printed).toMatch(/file +0\/1/);
    expect(printed).toContain(path);
    expect(printed).toContain("1 passed, 1 failed");
  });

  test("fails a vector whose signed bytes are others", async () => {
    await copy("own_no_expiry.json", (vector) => {
      (vector as { expected: { challenge_sign_bytes_hex: string } }).expected.challenge_sign_bytes_hex = "00";
    });
    expect(await run()).toMatchObject({
      code: 1,
      printed: expect.stringContaining("signed bytes of the challenge"),
    });
  });

  test.each([
    ["an unknown kind", { kind: "surprise" }],
    ["an option that it does not know", { expected: { verify_options: { now: 1, novelty: 1 } } }],
    ["a context field that it does not know", { verifier_context: { current_mood: 1 } }],
  ])("fails on %s instead of passing over it", async (_, change) => {
    await copy("own_no_expiry.json", (vector) => Object.assign(vector, change));
    expect(await run()).toMatchObject({ code: 1, printed: expect.stringContaining("0 passed, 1 failed") });
  });

  test.each([
    ["v1", "that is no JSON", "{", "broken.json", "invalid_json"],
    ["v1", "that is a list", "[]", "broken.json", "wrong_type"],
    ["v1", "that lacks what every vector has", '{"name":"x"}', "broken.json", "at kind"],
    ["v1", "with no vector", '{"vectors":[]}', "broken.json", "no list of vectors"],
    ["v1", "with a vector that is none", '{"vectors":[1]}', "broken.json[0]", "wrong_type"],
    ["wire-negative", "that is no JSON", '{"cases":', "broken.json", "invalid_json"],
    ["wire-negative", "without cases", "{}", "broken.json", "no list of cases"],
    ["wire-negative", "with no case", '{"cases":[]}', "broken.json", "no list of cases"],
    ["wire-negative", "with a case that is none", '{"cases":[1]}', "broken.json[0]", "wrong_type"],
    ["wire-negative", "with a case without document", '{"cases":[{}]}', "broken.json[0]", "no doc_b64"],
  ])("fails a file of %s %s, names it, and runs the others", async (part, _, content, name, reason) => {
    await copy("own_no_expiry.json");
    await mkdir(join(folder, part), { recursive: true });
    await writeFile(join(folder, part, "broken.json"), content);
    const { code, printed } = await run();
    expect(code).toBe(1);
    expect(printed).toContain(`    ${name}\n`);
    expect(printed).toContain(reason);
    expect(printed).toContain("1 passed, 1 failed");
  });

  test("names each failure, and counts what passed beside it", async () => {
    await copy("own_no_expiry.json");
    for (const name of ["own_broken_chain.json", "own_stream_skip.json"]) {
      await copy(name, (vector) => {
        (
          vector as { expected: { verify_result: { identity_status: string } } }
        ).expected.verify_result.identity_status = "revoked";
      });
    }
    const { code, printed } = await run();
    expect(code).toBe(1);
    expect(printed).toMatch(/verify +1\/3/);
    for (const name of ["own_broken_chain", "own_stream_skip"]) {
      expect(printed).toContain(
        `${name}\n      identity_status\n        expected "revoked"\n        got      "invalid"`,
      );
    }
  });

  test("fails a file that is no vector, and a good document among the malformed", async () => {
    await mkdir(join(folder, "v1"));
    await writeFile(join(folder, "v1", "broken.json"), "{");
    await mkdir(join(folder, "wire-negative"));
    const { bundle } = JSON.parse(await readFile(join(OWN, "v1/own_no_expiry.json"), "utf8"));
    const good = {
      name: "good",
      target: "bundle",
      strictness: "decode",
      doc_b64: Buffer.from(JSON.stringify(bundle)).toString("base64"),
    };
    await writeFile(join(folder, "wire-negative", "cases.json"), JSON.stringify({ cases: [good] }));
    expect(await run()).toMatchObject({ code: 1, printed: expect.stringContaining("0 passed, 2 failed") });
  });
});

import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
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
      ["test/conformance/main.ts", folder, ...others],
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

  test("fails a folder with a file that it does not know, and passes over its README", async () => {
    await copy("own_no_expiry.json");
    await writeFile(join(folder, "README.md"), "what these vectors are");
    expect(await run()).toMatchObject({ code: 0 });
    await writeFile(join(folder, "v1", "notes.txt"), "what else");
    const { code, printed } = await run();
    expect(code).toBe(1);
    expect(printed).toMatch(/file +0\/1\n +v1\/notes\.txt/);
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

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
function run(): Promise<{ code: number; printed: string }> {
  return new Promise((done) => {
    execFile(process.execPath, ["test/conformance.ts", folder], { cwd: PROJECT }, (error, stdout, stderr) => {
      done({ code: error === null ? 0 : Number(error.code), printed: stdout + stderr });
    });
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

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { vectorOf } from "../vectors/make.ts";
import { conformance } from "./main.ts";

type Json = Record<string, unknown>;

const GOOD = "own_no_expiry";
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "vectors-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function run(...args: string[]): Promise<{ code: number; printed: string }> {
  const lines: string[] = [];
  const print = (line: string) => lines.push(line);
  const code = await conformance([folder, ...args], { log: print, error: print });
  return { code, printed: lines.join("\n") };
}

async function write(path: string, content: string): Promise<void> {
  await mkdir(dirname(join(folder, path)), { recursive: true });
  await writeFile(join(folder, path), content);
}

async function copy(name: string, result: Json = {}): Promise<void> {
  const vector = vectorOf(name) as { expected: { verify_result: Json } };
  Object.assign(vector.expected.verify_result, result);
  await write(`v1/${name}.json`, JSON.stringify(vector));
}

describe("the conformance command", () => {
  test("fails if the folder is empty, missing or a file", async () => {
    const nothing = { code: 1, printed: expect.stringContaining("no vectors were found") };
    expect(await run()).toMatchObject(nothing);
    await mkdir(join(folder, "v1"));
    await mkdir(join(folder, "wire-negative"));
    expect(await run()).toMatchObject(nothing);
    await write("file", "");
    for (const name of ["absent", "file"]) {
      const log = () => {};
      expect(await conformance([join(folder, name)], { log, error: log })).toBe(1);
    }
  });

  test("exits the process with 1 if no vector was found", async () => {
    const args = [join(import.meta.dirname, "main.ts"), folder];
    const exit = promisify(execFile)(process.execPath, args);
    await expect(exit).rejects.toMatchObject({ code: 1, stdout: expect.stringContaining("0 passed") });
  });

  test("rejects a second folder and prints its usage", async () => {
    expect(await run("another")).toMatchObject({ code: 2, printed: expect.stringContaining("Usage") });
  });

  test("accepts a folder that has only vectors, counts the vectors by kind, and ignores each README", async () => {
    await copy(GOOD);
    for (const folder of ["", "v1/", "wire-negative/"]) {
      await write(`${folder}README.md`, "what these vectors are");
    }
    const { code, printed } = await run();
    expect(code).toBe(0);
    expect(printed).toMatch(/verify +1\/1/);
    expect(printed).toContain("1 passed, 0 failed");
  });

  test("accepts a folder that has only malformed documents", async () => {
    await write("wire-negative/cases.json", JSON.stringify({ cases: [caseOf("{")] }));
    const { code, printed } = await run();
    expect(code).toBe(0);
    expect(printed).toMatch(/wire-negative +1\/1/);
  });

  test("reports a failure for a well-formed document among the malformed documents", async () => {
    await write("wire-negative/cases.json", JSON.stringify({ cases: [caseOf(vectorOf(GOOD).bundle)] }));
    expect(await run()).toMatchObject({ code: 1, printed: expect.stringContaining("0 passed, 1 failed") });
  });

  test("prints the expected and the actual values of each failed vector, and counts the other vectors", async () => {
    await copy(GOOD);
    for (const name of ["own_broken_chain", "own_stream_skip"]) {
      await copy(name, { identity_status: "revoked" });
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

  test.each([
    ["own_revoked_root", { agent_id: "0".repeat(32) }, 'agent_id\n        expected "0'],
    ["own_revoked_root", { human_id: "0".repeat(32) }, 'human_id\n        expected "0'],
    ["own_revoked_root", { human_id: "" }, 'human_id\n        expected ""'],
    ["own_broken_chain", { human_id: "0".repeat(32) }, 'human_id\n        expected "0'],
  ])("compares the parties of the refused proof %s with %j", async (name, result, printed) => {
    await copy(name, result);
    expect(await run()).toMatchObject({ code: 1, printed: expect.stringContaining(printed) });
    await copy(name);
    expect(await run()).toMatchObject({ code: 0 });
  });

  test.each([
    ["v1", "that is not JSON", "{", "broken.json", "invalid_json"],
    ["v1", "that is a list", "[]", "broken.json", "wrong_type"],
    ["v1", "that lacks the members of every vector", '{"name":"x"}', "broken.json", "at kind"],
    ["v1", "with no vector", '{"vectors":[]}', "broken.json", "no list of vectors"],
    ["v1", "with an entry that is not a vector", '{"vectors":[1]}', "broken.json[0]", "wrong_type"],
    ["wire-negative", "that is not JSON", '{"cases":', "broken.json", "invalid_json"],
    ["wire-negative", "without cases", "{}", "broken.json", "no list of cases"],
    ["wire-negative", "with no case", '{"cases":[]}', "broken.json", "no list of cases"],
    ["wire-negative", "with an entry that is not a case", '{"cases":[1]}', "broken.json[0]", "wrong_type"],
    ["wire-negative", "with a case without a document", '{"cases":[{}]}', "broken.json[0]", "no doc_b64"],
  ])(
    "reports which file failed in %s %s, and runs the other files",
    async (part, _, content, name, reason) => {
      await copy(GOOD);
      await write(`${part}/broken.json`, content);
      const { code, printed } = await run();
      expect(code).toBe(1);
      expect(printed).toContain(`    ${name}\n`);
      expect(printed).toContain(reason);
      expect(printed).toContain("1 passed, 1 failed");
    },
  );

  test.each([
    "v1/notes.txt",
    "v1/deeper/own_no_expiry.json",
    "v1/README.txt",
    "v2/own_no_expiry.json",
    "own_no_expiry.json",
    "wire-negative/cases.json.gz",
  ])("reports a failure for the unknown file %s", async (path) => {
    await copy(GOOD);
    await write(path, JSON.stringify(vectorOf(GOOD)));
    const { code, printed } = await run();
    expect(code).toBe(1);
    expect(printed).toContain(`  ${"file".padEnd(32)} 0/1\n    ${path}\n`);
    expect(printed).toContain("1 passed, 1 failed");
  });
});

function caseOf(document: unknown): Json {
  const text = typeof document === "string" ? document : JSON.stringify(document);
  return {
    name: "case",
    target: "bundle",
    strictness: "decode",
    doc_b64: Buffer.from(text).toString("base64"),
  };
}

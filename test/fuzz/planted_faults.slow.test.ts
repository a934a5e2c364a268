import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PLANTED_FAULTS } from "./planted_faults.ts";

const PROJECT = resolve(import.meta.dirname, "../..");
const PARTS = ["package.json", "src/protocol", "test/fuzz", "test/support"];
const HANG_MS = 120_000;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "planted-"));
  for (const part of PARTS) await cp(join(PROJECT, part), join(folder, part), { recursive: true });
  await symlink(join(PROJECT, "node_modules"), join(folder, "node_modules"));
});

afterAll(() => rm(folder, { recursive: true }));

/** Replays the corpus on the copied sources; what it printed, or `undefined` when everything came out as kept. */
function replay(): Promise<string | undefined> {
  return new Promise((done) => {
    execFile(
      process.execPath,
      ["test/fuzz/replay.ts"],
      { cwd: folder, timeout: HANG_MS },
      (error, stdout, stderr) => done(error === null ? undefined : stdout + stderr),
    );
  });
}

describe("the corpus", () => {
  test("finds nothing in the sources as they are", async () => {
    expect(await replay()).toBeUndefined();
  });

  test.each(PLANTED_FAULTS)("finds in $file that $name", async ({ file, from, to }) => {
    const path = join(folder, "src/protocol", file);
    const source = await readFile(path, "utf8");
    expect(source.split(from)).toHaveLength(2);
    try {
      await writeFile(
        path,
        source.replace(from, () => to),
      );
      expect(await replay()).toContain(" instead of ");
    } finally {
      await writeFile(path, source);
    }
  });
});

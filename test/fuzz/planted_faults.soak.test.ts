import { execFile } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PLANTED_FAULTS } from "./planted_faults.ts";
import { copySources, type Planting } from "./planting.ts";

const HANG_MS = 300_000;
let planting: Planting;

beforeAll(async () => {
  planting = await copySources();
});

afterAll(() => planting.remove());

/** Replays the corpus on the copied sources. Returns `undefined` if every result is as recorded. */
function replay(): Promise<string | undefined> {
  return new Promise((done) => {
    execFile(
      process.execPath,
      ["test/fuzz/replay.ts"],
      { cwd: planting.folder, timeout: HANG_MS },
      (error, stdout, stderr) => done(error === null ? undefined : stdout + stderr),
    );
  });
}

describe("the corpus", () => {
  test("gives the recorded results for the unchanged sources", async () => {
    expect(await replay()).toBeUndefined();
  });

  test.each(PLANTED_FAULTS)("detects in $file that $name", async (fault) => {
    await planting.plant(fault);
    try {
      expect(await replay()).toBeDefined();
    } finally {
      await planting.restore(fault);
    }
  });
});

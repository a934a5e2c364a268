import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { lockFolder, processBirth } from "../../../src/dev/process/folder_lock.mjs";
import { killHard, type RunningScript, runScript } from "../../support/process.ts";

let folder: string;
const scripts: RunningScript[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-lock-"));
});

afterEach(async () => {
  await Promise.all(scripts.splice(0).map(({ child }) => killHard(child)));
  await rm(folder, { recursive: true, force: true });
});

async function lockElsewhere(): Promise<string> {
  const script = await runScript(join(import.meta.dirname, "../fixtures/run_lock.ts"), [folder]);
  scripts.push(script);
  return script.firstLine;
}

test("lockFolder gives the lock to at most one of many simultaneous candidates", async () => {
  for (let round = 0; round < 2; round += 1) {
    const answers = await Promise.all(Array.from({ length: 6 }, lockElsewhere));
    expect(answers.filter((answer) => answer === "mine").length).toBeLessThanOrEqual(1);
    expect(answers.every((answer) => answer === "mine" || /^held by \d+$/.test(answer))).toBe(true);
    await Promise.all(scripts.splice(0).map(({ child }) => killHard(child)));
    expect(await lockElsewhere()).toBe("mine");
    await Promise.all(scripts.splice(0).map(({ child }) => killHard(child)));
  }
});

test("lockFolder reports the lock's holder, also to a second attempt by the same process", async () => {
  const first = await lockFolder(folder);
  expect(await lockFolder(folder)).toEqual({ heldBy: process.pid });
  expect(await lockElsewhere()).toBe(`held by ${process.pid}`);
  if ("release" in first) {
    first.release();
  }
  expect(await lockElsewhere()).toBe("mine");
});

test("lockFolder removes lock files of dead processes and keeps those of living ones", async () => {
  const living = `${process.ppid}.${processBirth(process.ppid)}`;
  await writeFile(join(folder, "999999999.1"), "");
  await writeFile(join(folder, `${process.ppid}.1`), "");
  await writeFile(join(folder, living), "");
  expect(await lockFolder(folder)).toEqual({ heldBy: process.ppid });
  expect(await readdir(folder)).toEqual([living]);
});

test("processBirth is constant for a process, and undefined after the process has exited", async () => {
  expect(processBirth(process.pid)).toBe(processBirth(process.pid));
  expect(processBirth(process.pid)).toMatch(/^\S+$/);
  expect(processBirth(999_999_999)).toBeUndefined();
});

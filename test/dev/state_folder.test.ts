import { execFile, execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeFolder, openStateFolder, writeAtomically } from "../../src/dev/state_folder.ts";
import { describeError, UserError } from "../../src/dev/user_error.ts";

const mayMount = process.platform === "linux" && process.getuid?.() === 0;
if (!mayMount) console.warn("SKIPPED: file systems that are read-only or full need Linux and root");

let above: string;
let folder: string;
const mounted: string[] = [];

beforeEach(async () => {
  above = await mkdtemp(join(tmpdir(), "deputize-folder-"));
  folder = join(above, "data");
});

afterEach(async () => {
  for (const disk of mounted.splice(0)) execFileSync("umount", [disk]);
  await rm(above, { recursive: true, force: true });
});

async function mount(options: string): Promise<void> {
  await mkdir(folder);
  execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]);
  mounted.push(folder);
}

async function refusal(work: Promise<unknown>): Promise<UserError> {
  const thrown = await work.catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(UserError);
  return thrown as UserError;
}

/** Opens a state folder in a process of an ordinary user, within ten seconds. */
async function openElsewhere(path: string): Promise<string> {
  const script = join(import.meta.dirname, "fixtures/run_open_folder.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script, path], { timeout: 10_000 });
  return stdout;
}

describe("makeFolder", () => {
  test("creates the folder and its missing parents, accessible only to the owner", async () => {
    await makeFolder(join(folder, "b", "c"));
    for (const path of [folder, join(folder, "b"), join(folder, "b", "c")]) {
      expect((await stat(path)).mode & 0o777).toBe(0o700);
    }
  });

  test("leaves an existing folder unchanged", async () => {
    await mkdir(folder, { mode: 0o750 });
    await writeFile(join(folder, "mine"), "");
    await makeFolder(folder);
    expect((await stat(folder)).mode & 0o777).toBe(0o750);
    expect(await readdir(folder)).toEqual(["mine"]);
  });

  test("can run many times concurrently for the same folder", async () => {
    await Promise.all(Array.from({ length: 8 }, () => makeFolder(join(folder, "b", "c"))));
    expect(await readdir(join(folder, "b"))).toEqual(["c"]);
  });
});

describe("openStateFolder throws one sentence with the path for", () => {
  test("a file, or a path inside one", async () => {
    await writeFile(folder, "mine");
    for (const path of [folder, join(folder, "below")]) {
      const { message, remedy } = await refusal(openStateFolder(path));
      expect(message).toBe(`${path} cannot be used: it, or a folder above it, is a file`);
      expect(remedy).toContain("--data");
    }
    expect(await readFile(folder, "utf8")).toBe("mine");
  });

  test.skipIf(process.platform !== "linux")("a path below /proc, without hanging", async () => {
    for (const [path, named] of [
      ["/proc/none", "/proc/none"],
      ["/proc/none/below", "/proc/none"],
      ["/proc/self/below", "/proc/self/below"],
      ["/proc/self", "/proc/self"],
    ] as const) {
      expect(await openElsewhere(path)).toMatch(new RegExp(`^UserError: ${named} cannot be used: `));
    }
  });

  test("a folder of another user", async () => {
    await mkdir(folder, { mode: 0o500 });
    for (const path of [folder, join(folder, "below")]) {
      expect(await openElsewhere(path)).toContain(
        `UserError: ${path} cannot be used: this user may not access it`,
      );
    }
  });

  test.skipIf(!mayMount)("a read-only file system", async () => {
    await mount("ro");
    for (const path of [folder, join(folder, "below")]) {
      const { message } = await refusal(openStateFolder(path));
      expect(message).toBe(`${path} cannot be used: its file system is read-only`);
    }
  });

  test.skipIf(!mayMount)("a full file system", async () => {
    await mount("size=64k,nr_inodes=4");
    for (const name of ["lock", "one", "two"]) await mkdir(join(folder, name));
    const { message } = await refusal(openStateFolder(folder));
    expect(message).toBe(`${folder} cannot be used: its file system is full`);
  });
});

describe("writeAtomically", () => {
  test.skipIf(!mayMount)("keeps the old file and reports its path if the disk is full", async () => {
    await mount("size=64k");
    const file = join(folder, "state.json");
    await writeAtomically(file, "before");
    const thrown = await writeAtomically(file, "x".repeat(100_000)).catch((error: unknown) => error);
    expect(describeError(thrown)[0]).toBe(`${file} cannot be used: its file system is full`);
    expect(await readFile(file, "utf8")).toBe("before");
    expect(await readdir(folder)).toEqual(["state.json"]);
  });

  test("replaces the content of a file that only its owner can read", async () => {
    await mkdir(folder);
    const file = join(folder, "state.json");
    await writeAtomically(file, "before");
    await writeAtomically(file, "after");
    expect(await readFile(file, "utf8")).toBe("after");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(["state.json"]);
  });
});

describe("describeError", () => {
  const failure = (code: string, path?: string) =>
    Object.assign(new Error(`${code}: in words, open`), { code, ...(path === undefined ? {} : { path }) });

  test.each([
    ["EROFS", "its file system is read-only"],
    ["EACCES", "this user may not access it"],
    ["EPERM", "this user may not access it"],
    ["ENOSPC", "its file system is full"],
    ["EDQUOT", "its file system is full"],
    ["ENOTDIR", "it, or a folder above it, is a file"],
    ["EISDIR", "it is a folder"],
  ])("explains %s with the path and a remedy", (code, words) => {
    const [message, remedy] = describeError(failure(code, "/data/x"));
    expect(message).toBe(`/data/x cannot be used: ${words}`);
    expect(remedy).toMatch(/--data/);
  });

  test("returns the stack of an error for which it knows no remedy", () => {
    for (const error of [failure("EMFILE", "/data/x"), failure("EACCES"), new Error("boom")]) {
      expect(describeError(error)).toEqual([error.stack]);
    }
  });
});

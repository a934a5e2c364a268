import { execFileSync } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readRegularFile } from "../../../src/operator/folder/listing.ts";

describe("readRegularFile()", () => {
  let folder: string;
  const path = () => join(folder, "file");
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-file-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test("returns at most the allowed number of bytes, and a fault for a larger file", async () => {
    await writeFile(path(), "grün");
    expect(await readRegularFile(path(), 5)).toEqual({ text: "grün" });
    expect(await readRegularFile(path(), 4)).toEqual({ fault: "has more than 4 bytes" });
  });

  test("reads an empty file", async () => {
    await writeFile(path(), "");
    expect(await readRegularFile(path(), 4)).toEqual({ text: "" });
  });

  test("refuses a pipe without waiting for a writer", async () => {
    execFileSync("mkfifo", [path()]);
    expect(await readRegularFile(path(), 4)).toEqual({ fault: "is not a regular file" });
  });

  test.each(["/dev/zero", "/dev/null", tmpdir()])("refuses a link to %s", async (target) => {
    await symlink(target, path());
    expect(await readRegularFile(path(), 4)).toEqual({ fault: "is not a regular file" });
  });

  test("does not trust the size that the system reports", async () => {
    await symlink("/proc/self/maps", path());
    expect(await readRegularFile(path(), 16)).toEqual({ fault: "has more than 16 bytes" });
  });

  test("throws if the file does not exist", async () => {
    await expect(readRegularFile(path(), 4)).rejects.toThrow("ENOENT");
  });
});

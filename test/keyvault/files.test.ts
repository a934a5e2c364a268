import { lstat, mkdir, mkdtemp, open, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { appendHead } from "../../keyvault/audit/heads.ts";
import { writeFileDurably } from "../../keyvault/files.ts";

test("a file is written whole, or nothing is left of it and the error names it", async () => {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-files-"));
  try {
    await writeFileDurably(join(dir, "one"), "text");
    expect(await readFile(join(dir, "one"), "utf8")).toBe("text");
    await mkdir(join(dir, "taken"));
    await expect(writeFileDurably(join(dir, "taken"), "text")).rejects.toMatchObject({
      code: "EISDIR",
      path: join(dir, "taken"),
    });
    expect((await readdir(dir)).sort()).toEqual(["one", "taken"]);
  } finally {
    await rm(dir, { recursive: true });
  }
});

test("what somebody laid where a file is written first gets none of it", async () => {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-files-"));
  try {
    await writeFile(join(dir, "victim"), "precious");
    await symlink(join(dir, "victim"), join(dir, "one.key.unfinished"));
    await writeFileDurably(join(dir, "one.key"), "secret");
    expect(await readFile(join(dir, "victim"), "utf8")).toBe("precious");
    expect((await lstat(join(dir, "one.key"))).isFile()).toBe(true);
    const held = await open(join(dir, "two.key.unfinished"), "w+", 0o666);
    await writeFileDurably(join(dir, "two.key"), "secret");
    expect(await held.readFile("utf8")).toBe("");
    await held.close();
    expect(await readFile(join(dir, "two.key"), "utf8")).toBe("secret");
    expect((await readdir(dir)).sort()).toEqual(["one.key", "two.key", "victim"]);
  } finally {
    await rm(dir, { recursive: true });
  }
});

afterEach(() => vi.restoreAllMocks());

/** How long the files opened from now on were when they were put on the disk, in order; folders are left out. */
async function syncedLengths(dir: string): Promise<number[]> {
  const lengths: number[] = [];
  const probe = await open(dir, "r");
  const handles = Object.getPrototypeOf(probe) as typeof probe;
  await probe.close();
  const { sync } = handles;
  vi.spyOn(handles, "sync").mockImplementation(async function (this: typeof probe) {
    const stats = await this.stat();
    if (stats.isFile()) lengths.push(stats.size);
    return sync.call(this);
  });
  return lengths;
}

test("secrets and noted heads are on the disk, whole, before they are said to be written", async () => {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-files-"));
  try {
    const lengths = await syncedLengths(dir);
    await writeFileDurably(join(dir, "pin"), "1234");
    expect(lengths).toEqual([4]);
    const heads = join(dir, "heads");
    for (const count of [1, 2]) {
      await appendHead(heads, { seq: count, mac: Buffer.alloc(32) }, new Date(0));
      expect(lengths.at(-1)).toBe((await readFile(heads)).length);
      expect(lengths).toHaveLength(1 + count);
    }
  } finally {
    await rm(dir, { recursive: true });
  }
});

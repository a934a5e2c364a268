import {
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { appendHead } from "../../keyvault/audit/head_file.ts";
import { makeFolderDurably, writeFileDurably } from "../../keyvault/files.ts";

async function ownFolder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-files-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  return dir;
}

test("writeFileDurably writes a whole file, or leaves nothing and rejects with the file's path", async () => {
  const dir = await ownFolder();
  await writeFileDurably(join(dir, "one"), "text");
  expect(await readFile(join(dir, "one"), "utf8")).toBe("text");
  await mkdir(join(dir, "taken"));
  await expect(writeFileDurably(join(dir, "taken"), "text")).rejects.toMatchObject({
    code: "EISDIR",
    path: join(dir, "taken"),
  });
  expect((await readdir(dir)).sort()).toEqual(["one", "taken"]);
});

test("writeFileDurably does not write through a link or file that another user placed at the temporary path", async () => {
  const dir = await ownFolder();
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
});

test("a later concurrent call of makeFolderDurably completes, and the earlier call then fails", async () => {
  const dir = await ownFolder();
  const path = join(dir, "token");
  const earlier = makeFolderDurably(path, async (aside) => {
    await writeFile(join(aside, "one"), "earlier");
    await makeFolderDurably(path, (other) => writeFile(join(other, "two"), "later"));
    await writeFile(join(aside, "three"), "earlier");
  });
  await expect(earlier).rejects.toMatchObject({ code: "ENOENT" });
  expect(await readdir(path)).toEqual(["two"]);
  expect(await readdir(dir)).toEqual(["token"]);
  const onto = makeFolderDurably(path, (aside) => writeFile(join(aside, "one"), ""));
  await expect(onto).rejects.toMatchObject({ code: "ENOTEMPTY" });
  expect(await readdir(path)).toEqual(["two"]);
  expect(await readdir(dir)).toEqual(["token"]);
});

afterEach(() => vi.restoreAllMocks());

test("writeFileDurably sets the requested mode whatever the umask", async () => {
  const dir = await ownFolder();
  const before = process.umask(0o077);
  try {
    await writeFileDurably(join(dir, "certificate"), "public", 0o644);
    process.umask(0);
    await writeFileDurably(join(dir, "key"), "secret");
  } finally {
    process.umask(before);
  }
  const mode = async (name: string) => (await stat(join(dir, name))).mode & 0o777;
  expect(await mode("certificate")).toBe(0o644);
  expect(await mode("key")).toBe(0o600);
});

/**
 * Records the calls that sync to disk from now on: for a folder its names at that time, for a file its
 * length.
 */
async function synced(dir: string): Promise<(string | number)[]> {
  const seen: (string | number)[] = [];
  const byInode = async (inode: number) => {
    const paths = [dir, ...(await readdir(dir, { recursive: true })).map((name) => join(dir, name))];
    for (const path of paths) if ((await lstat(path)).ino === inode) return path;
    return "";
  };
  const probe = await open(dir, "r");
  const handles = Object.getPrototypeOf(probe) as typeof probe;
  await probe.close();
  const { sync } = handles;
  vi.spyOn(handles, "sync").mockImplementation(async function (this: typeof probe) {
    const stats = await this.stat();
    seen.push(stats.isFile() ? stats.size : (await readdir(await byInode(stats.ino))).sort().join(" "));
    return sync.call(this);
  });
  return seen;
}

test("writeFileDurably and appendHead resolve after the content and the new name are on disk", async () => {
  const dir = await ownFolder();
  const seen = await synced(dir);
  await writeFileDurably(join(dir, "pin"), "1234");
  expect(seen.splice(0)).toEqual([4, "pin"]);
  const heads = join(dir, "heads");
  for (const count of [1, 2]) {
    await appendHead(heads, { seq: count, mac: Buffer.alloc(32) }, new Date(0));
    const lengths = seen.splice(0).filter((one) => typeof one === "number");
    expect(lengths).toEqual([(await readFile(heads)).length]);
  }
});

test("makeFolderDurably syncs the folder's content before its name, and resolves after the name is on disk", async () => {
  const dir = await ownFolder();
  const seen = await synced(dir);
  let aside = "";
  const made = makeFolderDurably(join(dir, "token"), async (path) => {
    aside = path;
    expect((await stat(path)).mode & 0o777).toBe(0o700);
    await mkdir(join(path, "objects"));
    await writeFile(join(path, "objects", "key"), "12345");
    await writeFile(join(path, "conf"), "123");
    return "filled";
  });
  expect(await made).toBe("filled");
  expect(seen.slice(0, -2).sort()).toEqual([3, 5, "key"]);
  expect(seen.slice(-2)).toEqual(["conf objects", "token"]);
  expect(await readdir(dir)).toEqual(["token"]);
  expect(aside).not.toBe(join(dir, "token"));
});

test("makeFolderDurably leaves nothing if the folder cannot be filled, and does not change an existing folder", async () => {
  const dir = await ownFolder();
  const failing = makeFolderDurably(join(dir, "token"), async (path) => {
    await writeFile(join(path, "conf"), "123");
    throw new Error("the module refuses");
  });
  await expect(failing).rejects.toThrow("the module refuses");
  expect(await readdir(dir)).toEqual([]);
  await mkdir(join(dir, "token"));
  await writeFile(join(dir, "token", "kept"), "");
  await expect(makeFolderDurably(join(dir, "token"), async () => {})).rejects.toThrow();
  expect(await readdir(dir, { recursive: true })).toEqual(["token", join("token", "kept")]);
});

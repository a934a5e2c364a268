import { copyFile, mkdir, mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isLockedNode, LOCKED_NODE, NODE_HASHES } from "../../src/dev/setup/node.mjs";
import { isInstalled } from "../../src/dev/setup/packages.mjs";

const ROOT = join(import.meta.dirname, "../..");

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-node-"));
  await mkdir(dirname(join(folder, LOCKED_NODE)), { recursive: true });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("the lock file has a hash for each package that contains Node, and no such package has an install script", async () => {
  const { packages } = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8"));
  const versions = Object.keys(NODE_HASHES).map((name) => {
    const locked = packages[`node_modules/${name}`];
    expect(locked?.integrity, name).toMatch(/^sha512-/);
    expect(locked?.hasInstallScript, name).toBeUndefined();
    return locked?.version;
  });
  expect([...new Set(versions)]).toEqual([process.versions.node]);
  expect(
    packages["node_modules/node"],
    "this package would install another one that the lock does not list",
  ).toBeUndefined();
});

test("the tests run with the locked Node", () => {
  expect(process.execPath).toBe(join(ROOT, LOCKED_NODE));
  expect(isLockedNode(ROOT)).toBe(true);
});

test("isLockedNode rejects a Node binary that is altered, missing or truncated", async () => {
  const path = join(folder, LOCKED_NODE);
  expect(isLockedNode(folder)).toBe(false);
  await copyFile(process.execPath, path);
  expect(isLockedNode(folder)).toBe(true);
  const file = await open(path, "r+");
  const byte = Buffer.alloc(1);
  await file.read(byte, 0, 1, 5_000_000);
  await file.write(Buffer.from([(byte[0] ?? 0) ^ 1]), 0, 1, 5_000_000);
  await file.close();
  expect(isLockedNode(folder)).toBe(false);
  await writeFile(path, (await readFile(process.execPath)).subarray(0, -1));
  expect(isLockedNode(folder)).toBe(false);
});

const LOCKED = { version: "1.0.0", integrity: "sha512-a" };

test.each<[string, Record<string, unknown>, { dev?: true; light?: true }]>([
  ["accepts exactly the locked packages", { a: LOCKED, test: LOCKED }, { dev: true, light: true }],
  [
    "accepts an additional optional package",
    { a: LOCKED, test: LOCKED, b: LOCKED },
    { dev: true, light: true },
  ],
  ["rejects another version", { a: { ...LOCKED, version: "1.0.1" }, test: LOCKED }, {}],
  ["rejects another hash", { a: { ...LOCKED, integrity: "sha512-b" }, test: LOCKED }, {}],
  ["rejects a package without its folder", { a: LOCKED, test: LOCKED, c: LOCKED }, {}],
  ["rejects an installation that npm has not finished", {}, {}],
  ["requires development packages only if they are needed", { a: LOCKED }, { light: true }],
])("isInstalled %s", async (_, recorded, { dev = false, light = false }) => {
  const inFolder = (packages: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(packages).map(([name, entry]) => [`node_modules/${name}`, entry]));
  const needed = Object.hasOwn(recorded, "c") ? { c: LOCKED } : {};
  const optional = { b: { ...LOCKED, optional: true } };
  const locked = {
    "": {},
    ...inFolder({ a: LOCKED, ...optional, test: { ...LOCKED, dev: true }, ...needed }),
  };
  const installed = inFolder(recorded);
  for (const name of ["a", "b", "test"]) await mkdir(join(folder, "node_modules", name), { recursive: true });
  await writeFile(join(folder, "package-lock.json"), JSON.stringify({ packages: locked }));
  await writeFile(join(folder, "node_modules/.package-lock.json"), JSON.stringify({ packages: installed }));
  expect([isInstalled(folder, true), isInstalled(folder, false)]).toEqual([dev, light]);
});

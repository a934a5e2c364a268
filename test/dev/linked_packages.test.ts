import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
let above: string;
let project: string;
let target: string;

beforeEach(async () => {
  above = await mkdtemp(join(tmpdir(), "deputize-linked-"));
  [project, target] = [join(above, "project"), join(above, "target")];
  await mkdir(join(project, "src"), { recursive: true });
  await mkdir(join(project, "keyvault"));
  await mkdir(join(target, "precious"), { recursive: true });
  await writeFile(join(target, "precious/index.js"), "1;\n");
  await cp(join(ROOT, "src/dev"), join(project, "src/dev"), { recursive: true });
  // The package is not installed yet. It is local, so npm needs no network.
  await mkdir(join(project, "local"));
  const local = { name: "local", version: "1.0.0" };
  await writeFile(join(project, "local/package.json"), JSON.stringify(local));
  const own = { name: "linked", version: "1.0.0", private: true, dependencies: { local: "file:local" } };
  await writeFile(join(project, "package.json"), JSON.stringify(own));
  const packages = { "": own, local, "node_modules/local": { resolved: "local", link: true } };
  const lock = { name: own.name, version: own.version, lockfileVersion: 3, packages };
  await writeFile(join(project, "package-lock.json"), JSON.stringify(lock));
});

afterEach(() => rm(above, { recursive: true, force: true }));

function runSetup() {
  const { status, stdout, stderr } = spawnSync("node", ["src/dev/setup.mjs", "conformance"], {
    cwd: project,
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

test.each([
  ["node_modules", "to a folder", () => target],
  ["node_modules", "to nothing", () => join(above, "none")],
  ["src/node_modules", "to a folder", () => target],
  ["keyvault/node_modules", "to a folder", () => target],
])("setup rejects %s as a symbolic link %s, and leaves the link's target unchanged", async (name, _, to) => {
  if (name !== "node_modules") await mkdir(join(project, "node_modules"));
  await symlink(to(), join(project, name));
  const said = runSetup();
  expect(await readdir(target)).toEqual(["precious"]);
  expect(said).toEqual({
    status: 1,
    stdout: "",
    stderr: `${name} is a symbolic link: npm would empty the folder that it leads to.\nRemove the link and run the same command again: rm ${name}\n`,
  });
  expect(await readdir(join(target, "precious"))).toEqual(["index.js"]);
  expect(existsSync(join(project, ".deputize"))).toBe(false);
});

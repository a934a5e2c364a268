import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { goProgram } from "./go_program.ts";

/** Stands in for Go: notes each build, takes its time, and writes the program unless it is to fail. */
const GO = `#!/bin/sh
[ "$1" = version ] && exit 0
echo build >> "$HOME/builds"
sleep 0.3
[ -e "$HOME/broken" ] && { echo "no such package" >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
echo program > "$2"
`;

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "deputize-go-"));
  await writeFile(join(home, "go"), GO);
  await chmod(join(home, "go"), 0o755);
  for (const file of ["main.go", "go.mod", "go.sum"]) await writeFile(join(home, file), "");
  vi.stubEnv("HOME", home);
  vi.stubEnv("PATH", `${home}:${process.env.PATH}`);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(home, { recursive: true });
});

const program = () => goProgram({ sources: home, name: "tool", folder: "tool-1", what: "a tool" });
const builds = async () => (await readFile(join(home, "builds"), "utf8")).trim().split("\n").length;

test("a program is built once, however many need it at the same time and later", async () => {
  const paths = (await Promise.all([program(), program(), program()])).map(({ path }) => path);
  expect(new Set(paths).size).toBe(1);
  expect(await readFile(paths[0] ?? "", "utf8")).toBe("program\n");
  expect((await program()).path).toBe(paths[0]);
  expect(await builds()).toBe(1);
});

test("a build that fails says why, and the next one tries again", async () => {
  await writeFile(join(home, "broken"), "");
  expect(await program()).toEqual({ missing: "a tool: go build failed: no such package" });
  await rm(join(home, "broken"));
  expect((await program()).path).toBeDefined();
  expect(await builds()).toBe(2);
});

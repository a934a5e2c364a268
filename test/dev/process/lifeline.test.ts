import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, describe, expect, test } from "vitest";
import { spawnTied } from "../../../src/dev/process/lifeline.mjs";
import { isRunning, killHard, runScript, until } from "../../support/process.ts";

const env = { PATH: process.env.PATH };
const ended: (() => Promise<void>)[] = [];

afterEach(async () => {
  await Promise.all(ended.splice(0).map((end) => end()));
});

/** Starts a parent that runs `script` as its child and prints the child's process ID. */
async function parentOf(script: string, graceMs: number) {
  const args = ["-e", script];
  const { child, firstLine } = await runScript(join(import.meta.dirname, "../fixtures/run_tied.ts"), [
    String(graceMs),
    process.execPath,
    ...args,
  ]);
  const pid = Number(firstLine);
  ended.push(async () => {
    await killHard(child);
    if (isRunning(pid)) {
      process.kill(pid, "SIGKILL");
    }
  });
  return { parent: child, pid };
}

describe("a tied process", () => {
  test("exits when its parent is killed", async () => {
    const { parent, pid } = await parentOf("console.log('on'); setInterval(() => {}, 1000)", 60_000);
    expect(isRunning(pid)).toBe(true);
    await killHard(parent);
    await until("the child has ended", () => !isRunning(pid));
  });

  test("exits after its parent was killed, even if it ignores SIGTERM", async () => {
    const { parent, pid } = await parentOf(
      "process.on('SIGTERM', () => {}); console.log('on'); for (;;);",
      200,
    );
    await killHard(parent);
    await until("the child has ended", () => !isRunning(pid));
  });

  test("leaves no child process when it exits or is killed", async () => {
    for (const end of ["KILL", "EXIT"]) {
      const script = `sleep 600 & echo $!; ${end === "EXIT" ? "exit 0" : "sleep 600"}`;
      const child = spawnTied("/bin/sh", ["-c", script], { env, stdio: ["ignore", "pipe", "inherit"] });
      const [line] = (await once(
        createInterface({ input: child.stdout as NodeJS.ReadableStream }),
        "line",
      )) as [string];
      if (end === "KILL") {
        await killHard(child);
      }
      await until("its own child has ended", () => !isRunning(Number(line)));
    }
  });

  test("may use its whole grace time to shut down", async () => {
    const script =
      "process.on('SIGTERM', () => setTimeout(() => process.exit(0), 3000)); console.log('on'); setInterval(() => {}, 1000)";
    const { parent, pid } = await parentOf(script, 60_000);
    await killHard(parent);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(isRunning(pid)).toBe(true);
    await until("the child has ended", () => !isRunning(pid));
  });

  test("runs as the command itself, with the command's exit status", async () => {
    const child = spawnTied("/bin/sh", ["-c", "echo $$; exit 7"], {
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(
      createInterface({ input: child.stdout as NodeJS.ReadableStream }),
      "line",
    )) as [string];
    expect(Number(line)).toBe(child.pid);
    if (child.exitCode === null) {
      await once(child, "exit");
    }
    expect(child.exitCode).toBe(7);
  });

  test("receives its arguments unchanged", async () => {
    const awkward = ["a b", "$(echo no)", "`no`", "'", '"', "*", "", "-n", "\\"];
    const child = spawnTied(
      process.execPath,
      ["-p", "JSON.stringify(process.argv.slice(1))", "--", ...awkward],
      {
        env,
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const [line] = (await once(
      createInterface({ input: child.stdout as NodeJS.ReadableStream }),
      "line",
    )) as [string];
    expect(JSON.parse(line)).toEqual(awkward);
  });

  test("exits with status 127 if the command cannot be executed", async () => {
    const child = spawnTied("/nowhere/command", [], { env, stdio: ["ignore", "ignore", "ignore"] });
    const [code] = (await once(child, "exit")) as [number];
    expect(code).toBe(127);
  });

  test("runs in a separate session, without its parent's terminal", async () => {
    const child = spawnTied("sleep", ["60"], { env, stdio: ["ignore", "ignore", "ignore"] });
    await once(child, "spawn");
    const ps = spawn("ps", ["-o", "sid=", "-p", String(child.pid)], { stdio: ["ignore", "pipe", "inherit"] });
    const [session] = (await once(createInterface({ input: ps.stdout }), "line")) as [string];
    expect(Number(session)).toBe(child.pid);
    await killHard(child);
  });

  test("does not keep its parent process alive", async () => {
    const parent = spawn(
      process.execPath,
      [join(import.meta.dirname, "../fixtures/run_tied.ts"), "100", "sh", "-c", "echo on; exit 0"],
      { stdio: "ignore" },
    );
    const [code] = (await once(parent, "exit")) as [number];
    expect(code).toBe(0);
  });
});

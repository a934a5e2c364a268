import { once } from "node:events";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openStack } from "../../src/dev/open_stack.ts";
import { processBirth } from "../../src/dev/process/folder_lock.mjs";
import { isRunning, killHard, until } from "../support/process.ts";
import { stackWorld } from "./stack_world.ts";

const world = stackWorld();
const { describePart, start, startInVain, startElsewhere, refusal, noted, pids, stacks, terminal } = world;

describe("a stack", () => {
  test("starts its parts in order and stops them in reverse", async () => {
    const stack = await start(
      await describePart("first"),
      await describePart("second"),
      await describePart("third"),
    );
    expect(await noted()).toEqual(["first up", "second up", "third up"]);
    await stack.stop();
    expect((await noted()).slice(3)).toEqual(["third down", "second down", "first down"]);
  });

  test("gives a part exactly its declared environment", async () => {
    await start(await describePart("only"));
    const log = await readFile(join(world.folder, "logs", "only.log"), "utf8");
    expect(
      JSON.parse(log.trim()).filter((name: string) => !["OLDPWD", "PWD", "SHLVL", "_"].includes(name)),
    ).toEqual(["GIVEN", "PATH"]);
  });

  test("lists its processes and ports in run.json while it runs, and no process after it has stopped", async () => {
    const only = await describePart("only");
    const stack = await start(only);
    const path = join(world.folder, "run.json");
    const run = JSON.parse(await readFile(path, "utf8"));
    expect(run).toEqual({
      pid: process.pid,
      parts: {
        only: { pid: expect.any(Number), birth: processBirth(run.parts.only.pid), ports: [only.port] },
      },
    });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await stack.stop();
    expect(await pids()).toEqual({});
  });

  test("kills a part that does not exit within its grace time", async () => {
    const stack = await start(await describePart("only", { manner: "stubborn", graceMs: 200 }));
    const { only = 0 } = await pids();
    await stack.stop();
    expect(isRunning(only)).toBe(false);
  });

  test("keeps the current logs and the logs of the three previous runs", async () => {
    for (let run = 0; run < 5; run += 1) {
      await (await start(await describePart("only"))).stop();
    }
    expect((await readdir(join(world.folder, "logs"))).sort()).toEqual([
      "only.log",
      "only.log.1",
      "only.log.2",
      "only.log.3",
    ]);
  });
});

describe("a part that exits unexpectedly", () => {
  test("restarts after a growing delay, with one warning line for each restart", async () => {
    await start(await describePart("only"));
    for (const [restarts, delay] of [0.25, 0.5].entries()) {
      process.kill((await pids()).only ?? 0, "SIGKILL");
      await until("the part runs again", async () => (await noted()).length === restarts + 2);
      const lines = world.warnings.trim().split("\n");
      expect(lines).toHaveLength(restarts + 1);
      expect(lines.at(-1)).toMatch(/^The only ended (while starting )?\(SIGKILL\); /);
      expect(lines.at(-1)).toContain(`; it is started again in ${delay} s`);
    }
    expect(await noted()).toEqual(["only up", "only up", "only up"]);
  });

  test("does not affect the other parts", async () => {
    await start(await describePart("one"), await describePart("other"));
    const before = await pids();
    process.kill(before.one ?? 0, "SIGKILL");
    await until("the part runs again", async () => (await pids()).one !== before.one);
    expect((await pids()).other).toBe(before.other);
  });

  test("does not restart after the stack was stopped", async () => {
    const stack = await start(await describePart("only"));
    process.kill((await pids()).only ?? 0, "SIGKILL");
    await until("the stack reports the end of the part", () => world.warnings !== "");
    await stack.stop();
    expect(await noted()).toEqual(["only up"]);
  });
});

describe("a part that fails to start", () => {
  test("leads to an error with its exit and last output, and the earlier parts stop", async () => {
    const parts = [await describePart("good"), await describePart("bad", { manner: "broken" })];
    expect(await startInVain(...parts)).toBe(1);
    expect(world.warnings).toMatch(/^The bad ended while starting \(exit status 3\)\n/);
    expect(world.warnings).toContain("cannot open the pod bay doors");
    expect(world.warnings).toContain(join(world.folder, "logs", "bad.log"));
    expect(await noted()).toEqual(["good up", "good down"]);
  });

  test("leaves no process running if it never becomes ready", async () => {
    const only = await describePart("only", { manner: "mute", startMs: 500 });
    expect(await startInVain(only)).toBe(1);
    expect(world.warnings).toContain("The only did not become ready");
    expect(await pids()).toEqual({});
  });

  test("leads to an error with its port and the port's setting if the port is in use", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as { port: number };
    expect(await startInVain(await describePart("only", { port }))).toBe(78);
    expect(world.warnings).toMatch(new RegExp(`^Port ${port} on 127.0.0.1 is in use .*\n.*--only-port\n$`));
    taken.close();
    await once(taken, "close");
    await start(await describePart("only", { port }));
  });
});

describe("a state folder", () => {
  const open = async () => {
    const stack = await openStack({ folder: world.folder, terminal });
    stacks.push(stack);
    return stack;
  };

  test("allows one stack at a time", async () => {
    const first = await start(await describePart("only"));
    const problem = await refusal(open());
    expect(problem.message).toContain(
      `already running on ${world.folder}, started by process ${process.pid}`,
    );
    expect(await noted()).toEqual(["only up"]);
    await first.stop();
    await open();
  });

  test("can be opened again after its stack was killed", async () => {
    const { child } = await startElsewhere();
    expect((await refusal(open())).message).toContain(`process ${child.pid}`);
    await killHard(child);
    await open();
  });

  test("can be opened if the process ID in its lock file now belongs to another process", async () => {
    await mkdir(join(world.folder, "lock"));
    await writeFile(join(world.folder, "lock", `${process.ppid}.1`), "");
    await open();
  });

  test.each([
    ["a newer layout", '{"layout":2}', "newer version"],
    ["an older layout", '{"layout":0}', "older version"],
    ["a version that is not a number", '{"layout":"1"}', "does not contain a valid layout version"],
    ["a truncated version file", '{"lay', "does not contain a valid layout version"],
    ["an empty version file", "", "does not contain a valid layout version"],
  ])("with %s cannot be opened and stays unchanged", async (_, content, message) => {
    await writeFile(join(world.folder, "version.json"), content);
    const problem = await refusal(open());
    expect(problem.message).toContain(message);
    expect(problem.remedy).toContain(`rm -r ${world.folder}`);
    expect(await readFile(join(world.folder, "version.json"), "utf8")).toBe(content);
    expect(await readdir(join(world.folder, "lock"))).toEqual([]);
  });

  test("cannot be opened if it contains data but no version", async () => {
    await mkdir(join(world.folder, "postgres"));
    expect((await refusal(open())).message).toContain("holds data (postgres)");
  });

  test("can be opened again if its layout is supported", async () => {
    await (await open()).stop();
    await mkdir(join(world.folder, "postgres"));
    await open();
  });

  test("cannot be opened if it is a file", async () => {
    await rm(world.folder, { recursive: true });
    await writeFile(world.folder, "");
    expect((await refusal(open())).message).toContain(`${world.folder} cannot be used`);
  });
});

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

  test("gives a part its own environment and nothing else", async () => {
    await start(await describePart("only"));
    const log = await readFile(join(world.folder, "logs", "only.log"), "utf8");
    expect(
      JSON.parse(log.trim()).filter((name: string) => !["OLDPWD", "PWD", "SHLVL", "_"].includes(name)),
    ).toEqual(["GIVEN", "PATH"]);
  });

  test("says in run.json which processes and ports it has, and that there are none after the end", async () => {
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

  test("kills a part that does not end in time", async () => {
    const stack = await start(await describePart("only", { manner: "stubborn", graceMs: 200 }));
    const { only = 0 } = await pids();
    await stack.stop();
    expect(isRunning(only)).toBe(false);
  });

  test("keeps the logs of the last runs", async () => {
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

describe("a part that ends by itself", () => {
  test("is started again, later each time, with one line for each", async () => {
    await start(await describePart("only"));
    for (const [restarts, delay] of [0.25, 0.5].entries()) {
      process.kill((await pids()).only ?? 0, "SIGKILL");
      await until("it is back", async () => (await noted()).length === restarts + 2);
      const lines = world.warnings.trim().split("\n");
      expect(lines).toHaveLength(restarts + 1);
      expect(lines.at(-1)).toMatch(/^The only ended (while starting )?\(SIGKILL\); /);
      expect(lines.at(-1)).toContain(`; it is started again in ${delay} s`);
    }
    expect(await noted()).toEqual(["only up", "only up", "only up"]);
  });

  test("leaves the others running", async () => {
    await start(await describePart("one"), await describePart("other"));
    const before = await pids();
    process.kill(before.one ?? 0, "SIGKILL");
    await until("it is back", async () => (await pids()).one !== before.one);
    expect((await pids()).other).toBe(before.other);
  });

  test("is not started again once the stack is stopped", async () => {
    const stack = await start(await describePart("only"));
    process.kill((await pids()).only ?? 0, "SIGKILL");
    await until("its end is noticed", () => world.warnings !== "");
    await stack.stop();
    expect(await noted()).toEqual(["only up"]);
  });
});

describe("a start that fails", () => {
  test("names the part, how it ended and its last words, and stops the ones before", async () => {
    const parts = [await describePart("good"), await describePart("bad", { manner: "broken" })];
    expect(await startInVain(...parts)).toBe(1);
    expect(world.warnings).toMatch(/^The bad ended while starting \(exit status 3\)\n/);
    expect(world.warnings).toContain("cannot open the pod bay doors");
    expect(world.warnings).toContain(join(world.folder, "logs", "bad.log"));
    expect(await noted()).toEqual(["good up", "good down"]);
  });

  test("because the part never becomes ready leaves no process", async () => {
    const only = await describePart("only", { manner: "mute", startMs: 500 });
    expect(await startInVain(only)).toBe(1);
    expect(world.warnings).toContain("The only did not become ready");
    expect(await pids()).toEqual({});
  });

  test("because a port is in use names the port and its setting", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as { port: number };
    expect(await startInVain(await describePart("only", { port }))).toBe(1);
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

  test("belongs to one stack at a time", async () => {
    const first = await start(await describePart("only"));
    const problem = await refusal(open());
    expect(problem.message).toContain(
      `already running on ${world.folder}, started by process ${process.pid}`,
    );
    expect(await noted()).toEqual(["only up"]);
    await first.stop();
    await open();
  });

  test("is taken over from a stack that is dead", async () => {
    const { child } = await startElsewhere();
    expect((await refusal(open())).message).toContain(`process ${child.pid}`);
    await killHard(child);
    await open();
  });

  test("is taken over when the process id belongs to another process now", async () => {
    await mkdir(join(world.folder, "lock"));
    await writeFile(join(world.folder, "lock", `${process.ppid}.1`), "");
    await open();
  });

  test.each([
    ["a newer layout", '{"layout":2}', "newer version"],
    ["an older layout", '{"layout":0}', "older version"],
    ["no number", '{"layout":"1"}', "cannot be understood"],
    ["half a file", '{"lay', "cannot be understood"],
    ["an empty file", "", "cannot be understood"],
  ])("with %s is refused, and nothing in it is changed", async (_, content, message) => {
    await writeFile(join(world.folder, "version.json"), content);
    const problem = await refusal(open());
    expect(problem.message).toContain(message);
    expect(problem.remedy).toContain(`rm -r ${world.folder}`);
    expect(await readFile(join(world.folder, "version.json"), "utf8")).toBe(content);
    expect(await readdir(join(world.folder, "lock"))).toEqual([]);
  });

  test("with data but without a version is refused", async () => {
    await mkdir(join(world.folder, "postgres"));
    expect((await refusal(open())).message).toContain("holds data (postgres)");
  });

  test("is used again when its layout is this one's", async () => {
    await (await open()).stop();
    await mkdir(join(world.folder, "postgres"));
    await open();
  });

  test("that is a file is refused", async () => {
    await rm(world.folder, { recursive: true });
    await writeFile(world.folder, "");
    expect((await refusal(open())).message).toContain(`${world.folder} cannot be used`);
  });
});

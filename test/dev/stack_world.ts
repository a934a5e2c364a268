import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { openStack, runStack, type Stack } from "../../src/dev/open_stack.ts";
import { freePort } from "../../src/dev/process/ports.ts";
import { createTerminal, type Terminal } from "../../src/dev/terminal.ts";
import { UserError } from "../../src/dev/user_error.ts";
import { killHard, type RunningScript, runScript } from "../support/process.ts";
import { type PartOptions, testPart } from "./fixtures/parts.ts";

/** A new state folder for each test of a file. The test's stacks stop after the test. */
export type StackWorld = {
  folder: string;
  notes: string;
  warnings: string;
  stacks: Stack[];
  terminal: Terminal;
  describePart(name: string, more?: Partial<PartOptions>): Promise<PartOptions>;
  start(...parts: PartOptions[]): Promise<Stack>;
  startInVain(...parts: PartOptions[]): Promise<number>;
  startElsewhere(...parts: PartOptions[]): Promise<RunningScript>;
  refusal(work: Promise<unknown>): Promise<UserError>;
  noted(): Promise<string[]>;
  pids(): Promise<Record<string, number>>;
};

/** Sets up the folder and the terminal for a test file. */
export function stackWorld(): StackWorld {
  const stacks: Stack[] = [];
  const scripts: RunningScript[] = [];

  beforeEach(async () => {
    world.folder = await mkdtemp(join(tmpdir(), "deputize-stack-"));
    world.notes = join(world.folder, "..", `${world.folder.split("/").at(-1)}.notes`);
    world.warnings = "";
    await writeFile(world.notes, "");
  });

  afterEach(async () => {
    await Promise.all(scripts.splice(0).map(({ child }) => killHard(child)));
    await Promise.all(stacks.splice(0).map((stack) => stack.stop()));
    await rm(world.folder, { recursive: true, force: true });
    await rm(world.notes, { force: true });
  });

  const terminal = createTerminal({
    out: { write: () => undefined },
    err: {
      write: (text) => {
        world.warnings += text;
      },
    },
    color: false,
    json: false,
  });

  async function describePart(name: string, more: Partial<PartOptions> = {}): Promise<PartOptions> {
    return { name, port: await freePort(), notes: world.notes, ...more };
  }

  async function start(...parts: PartOptions[]): Promise<Stack> {
    const stack = await openStack({ folder: world.folder, terminal });
    stacks.push(stack);
    for (const part of parts) await stack.start(testPart(part));
    return stack;
  }

  async function startInVain(...parts: PartOptions[]): Promise<number> {
    const stack = await openStack({ folder: world.folder, terminal });
    stacks.push(stack);
    return runStack(stack, terminal, async () => {
      for (const part of parts) await stack.start(testPart(part));
      throw new Error("every part has started");
    });
  }

  async function startElsewhere(...parts: PartOptions[]): Promise<RunningScript> {
    const script = await runScript(join(import.meta.dirname, "fixtures/run_stack.ts"), [
      world.folder,
      JSON.stringify(parts),
    ]);
    scripts.push(script);
    expect(script.firstLine).toBe("running");
    return script;
  }

  async function refusal(work: Promise<unknown>): Promise<UserError> {
    const thrown = await work.then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(thrown).toBeInstanceOf(UserError);
    return thrown as UserError;
  }

  async function noted(): Promise<string[]> {
    return (await readFile(world.notes, "utf8")).trim().split("\n");
  }

  async function pids(): Promise<Record<string, number>> {
    const run = JSON.parse(await readFile(join(world.folder, "run.json"), "utf8"));
    const parts = Object.entries(run.parts as Record<string, { pid: number }>);
    return Object.fromEntries(parts.map(([name, { pid }]) => [name, pid]));
  }

  const world = {
    stacks,
    terminal,
    describePart,
    start,
    startInVain,
    startElsewhere,
    refusal,
    noted,
    pids,
  } as StackWorld;
  return world;
}

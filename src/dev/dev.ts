import { once } from "node:events";
import { join, resolve } from "node:path";
import { systemClock } from "../clock.ts";
import { readDevConfig } from "./config.ts";
import { connectionOf, tryItYourself } from "./connection.ts";
import { Problem } from "./problem.ts";
import { startReceiver } from "./receiver.ts";
import { runStack } from "./run_stack.ts";
import { startParts } from "./stack.ts";
import { writeAtomically } from "./state_folder.ts";
import { openStack, type Stack } from "./supervisor.ts";
import { createTerminal, type Terminal } from "./terminal.ts";
import { standingDelegation, type TourState, type TourStep, type TourWorld, tourSteps } from "./tour.ts";

/** Options of `deputize dev`, as they were typed. */
export type DevOptions = { once?: boolean; json?: boolean; data: string; port: string };

/** Whom the example's tenants.yaml binds its namespace to. */
const OWNER_EMAIL = "owner@example.test";

/**
 * Runs everything on this machine: starts the parts, shows the main job step by step, then stays up until Ctrl-C, or
 * with `once` ends. Resolves to the exit status: 0, 1 at the first surprise, 130 when interrupted.
 */
export async function runDev(options: DevOptions): Promise<number> {
  const { color, ...settings } = readDevConfig();
  const terminal = createTerminal({
    out: process.stdout,
    err: process.stderr,
    color,
    json: options.json === true,
  });
  let stack: Stack;
  let apiPort: number;
  try {
    apiPort = readPort(options.port);
    stack = await openStack({ folder: resolve(options.data), terminal });
  } catch (error) {
    terminal.problem(error);
    return 1;
  }
  return runStack(stack, terminal, async (interrupted) => {
    terminal.line("Starting\n");
    const { baseUrl, quickstart } = await startParts(stack, terminal, { apiPort, ...settings });
    const receiver = await startReceiver({
      logFile: join(stack.folder, "received.jsonl"),
      clock: systemClock,
    });
    try {
      const earlier = await quickstart.credentials();
      if (earlier) receiver.useSecret(earlier.webhook_signing_secret);
      const world: TourWorld = { baseUrl, email: OWNER_EMAIL, quickstart, receiver };
      const state = {} as TourState;
      terminal.line("\nThe main job: a person lends an agent authority, and takes it back\n");
      for (const step of tourSteps) await runStep(terminal, step, world, state, interrupted);
      if (options.once === true) return;
      await runStep(terminal, standingDelegation, world, state, interrupted);
      const connection = connectionOf(state, OWNER_EMAIL);
      const file = join(stack.folder, "connection.json");
      await writeAtomically(file, `${JSON.stringify(connection, undefined, 2)}\n`);
      for (const line of tryItYourself(connection, file, stack.folder)) terminal.line(line);
      if (!interrupted.aborted) await once(interrupted, "abort");
    } finally {
      await receiver.close();
    }
  });
}

async function runStep(
  terminal: Terminal,
  { name, title, run }: TourStep,
  world: TourWorld,
  state: TourState,
  interrupted: AbortSignal,
): Promise<void> {
  interrupted.throwIfAborted();
  const step = terminal.step(name, title);
  try {
    step.done(await run(world, state));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    step.fail(interrupted.aborted ? "stopped" : message);
    throw interrupted.aborted ? error : new Problem(`"${title}" went otherwise than it must: ${message}`);
  }
}

function readPort(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) {
    throw new Problem(`--port ${text} is not a port`, "Give a number from 0 to 65535; 0 takes a free one");
  }
  return port;
}

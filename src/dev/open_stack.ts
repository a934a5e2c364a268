import { processBirth } from "./process/folder_lock.mjs";
import { type Part, rotateLog } from "./process/part.ts";
import { checkFree } from "./process/ports.ts";
import { type Supervisor, supervisePart } from "./process/supervisor.ts";
import { openStateFolder, type Run, untilEarlierRunEnded, writeRun } from "./state_folder.ts";
import { inStep, type Terminal } from "./terminal.ts";
import { statusOf } from "./user_error.ts";

type StackOptions = {
  /** The state folder. Only one stack can use it at a time. */
  folder: string;
  terminal: Terminal;
};

/** Parts that run together. All parts stop when this process exits, even if this process is killed. */
export type Stack = {
  folder: string;
  /**
   * Starts a part, and resolves when it is ready. From then on, the stack restarts the part when it exits.
   */
  start(part: Part): Promise<void>;
  /** Stops the parts in reverse order, each with its own timeout, then releases the folder. */
  stop(): Promise<void>;
  kill(): void;
};

/**
 * Locks a state folder for a new stack, and waits until the parts of an earlier, killed stack have exited.
 * Throws `UserError` if another stack uses the folder or if the folder's layout is unsupported.
 */
export async function openStack({ folder, terminal }: StackOptions): Promise<Stack> {
  const state = await openStateFolder(folder);
  await untilEarlierRunEnded(folder);
  const over = new AbortController();
  const supervisors: Supervisor[] = [];
  const run: Run = { pid: process.pid, parts: {} };
  let writing: Promise<void> = Promise.resolve();
  let stopping: Promise<void> | undefined;

  function record(part: Part, pid: number): void {
    run.parts[part.name] = {
      pid,
      birth: processBirth(pid) ?? "",
      ports: (part.ports ?? []).map(({ port }) => port),
    };
    writing = writing.then(() => writeRun(folder, run)).catch((error) => terminal.problem(error));
  }

  async function stopAll(): Promise<void> {
    over.abort();
    for (const keeper of supervisors.toReversed()) {
      await keeper.stop();
    }
    run.parts = {};
    await writing.then(() => writeRun(folder, run));
    state.release();
  }

  return {
    folder,
    start: (part) =>
      inStep(terminal.step(part.name, part.title), { interrupted: over.signal }, async () => {
        over.signal.throwIfAborted();
        await Promise.all((part.ports ?? []).map(checkFree));
        const context = {
          logFile: await rotateLog(folder, part.name),
          signal: over.signal,
          spawned: (pid: number) => record(part, pid),
        };
        const supervisor = supervisePart(part, context, (line) => terminal.warn(line));
        supervisors.push(supervisor);
        await supervisor.started;
        await writing;
      }),
    stop: () => {
      stopping ??= stopAll();
      return stopping;
    },
    kill() {
      over.abort();
      for (const keeper of supervisors.toReversed()) {
        keeper.kill();
      }
    },
  };
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const INTERRUPTED = 130;

/**
 * Runs `work`, then stops the stack. The first signal aborts `work` and stops the parts in order. The second
 * signal kills the parts and exits this process immediately.
 *
 * Resolves to the exit status: 0 if `work` finished, 130 after a signal, otherwise that of the failure,
 * which it prints.
 */
export async function runStack(
  stack: Pick<Stack, "stop" | "kill">,
  terminal: Terminal,
  work: (interrupted: AbortSignal) => Promise<void>,
): Promise<number> {
  const interrupted = new AbortController();
  function onSignal(): void {
    if (interrupted.signal.aborted) {
      stack.kill();
      terminal.halt();
      process.exit(INTERRUPTED);
    }
    interrupted.abort();
    terminal.line("\nStopping; press Ctrl-C to stop immediately");
    stack.stop().catch((error) => terminal.problem(error));
  }
  for (const signal of SIGNALS) {
    process.on(signal, onSignal);
  }
  try {
    await work(interrupted.signal);
    return 0;
  } catch (error) {
    if (interrupted.signal.aborted) {
      return INTERRUPTED;
    }
    terminal.problem(error);
    return statusOf(error);
  } finally {
    await stack.stop();
    for (const signal of SIGNALS) {
      process.off(signal, onSignal);
    }
  }
}

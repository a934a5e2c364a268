import type { Stack } from "./open_stack.ts";
import type { Terminal } from "./terminal.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const INTERRUPTED = 130;

/**
 * Does `work` with a stack and ends the stack afterwards, also when a signal asks for it: the first one stops
 * the parts in order, the second kills them and ends this process immediately. `work` gets an AbortSignal
 * that the first one aborts.
 *
 * Resolves to the exit status: 0 when `work` finished, 130 when a signal cut it short, 1 when it failed,
 * which is shown.
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
    return 1;
  } finally {
    await stack.stop();
    for (const signal of SIGNALS) {
      process.off(signal, onSignal);
    }
  }
}

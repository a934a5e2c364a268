import { setTimeout as sleep } from "node:timers/promises";
import { backoff } from "../../concurrency/backoff.ts";
import { describeError } from "../user_error.ts";
import type { Part, RunningPart, StartContext } from "./part.ts";

/** Milliseconds. */
const DELAY = { base: 250, cap: 10_000 };
/** A part that ran this long before it ended begins a new row of failures. */
const STABLE_MS = 30_000;

/** A part that is started again whenever it ends by itself. */
export type Supervisor = {
  /** The first start; rejected, nothing of the part runs and nothing is tried again. */
  started: Promise<void>;
  /** Ends the part and the keeping, whatever is going on. The context's signal must be aborted before. */
  stop(): Promise<void>;
  /** Kills the part immediately. */
  kill(): void;
};

/**
 * Starts a part and keeps it running until the context's signal is aborted; `warn` gets a line for each end.
 */
export function supervisePart(part: Part, context: StartContext, warn: (line: string) => void): Supervisor {
  const { signal } = context;
  let running: RunningPart | undefined;
  let failures = 0;

  async function launch(): Promise<RunningPart> {
    const started = await part.start(context);
    running = started;
    if (signal.aborted) {
      await started.stop();
    }
    return started;
  }

  async function revive(how: string): Promise<RunningPart | undefined> {
    for (let what = `${part.title} ended (${how})`; !signal.aborted; ) {
      failures += 1;
      const delay = backoff(DELAY, failures);
      warn(`${what}; it is started again in ${delay / 1000} s`);
      await sleep(delay, undefined, { signal }).catch(() => undefined);
      const next = signal.aborted ? undefined : await launch().catch((error: unknown) => error);
      if (next instanceof Error) {
        what = describeError(next)[0] ?? next.name;
      } else if (next !== undefined) {
        return next as RunningPart;
      }
    }
    return undefined;
  }

  async function supervise(first: RunningPart): Promise<void> {
    for (let current: RunningPart | undefined = first; current !== undefined; ) {
      const began = performance.now();
      const how = await current.exited;
      running = undefined;
      failures = performance.now() - began > STABLE_MS ? 0 : failures;
      current = await revive(how);
    }
  }

  const first = launch();
  const kept = first.then(supervise, () => undefined);
  return {
    started: first.then(() => undefined),
    async stop() {
      await running?.stop();
      await kept;
    },
    kill: () => running?.kill(),
  };
}

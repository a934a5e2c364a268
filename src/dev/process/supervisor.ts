import { setTimeout as sleep } from "node:timers/promises";
import { backoff } from "../../concurrency/backoff.ts";
import { describeError } from "../user_error.ts";
import type { Part, RunningPart, StartContext } from "./part.ts";

/** Back-off between restarts, in milliseconds. */
const DELAY = { base: 250, cap: 10_000 };
/** A part that has run for this many milliseconds is stable: its next failure starts the back-off over. */
const STABLE_MS = 30_000;

/** A part that is restarted whenever it exits unexpectedly. */
export type Supervisor = {
  /** Settles with the first start. If `started` rejects, nothing runs and nothing is retried. */
  started: Promise<void>;
  /** Stops the part. Abort the context's signal before this call, so that the part does not restart. */
  stop(): Promise<void>;
  kill(): void;
};

/** Starts a part and restarts it until the context's signal aborts. Calls `warn` once for each failure. */
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

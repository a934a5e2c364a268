import { Problem } from "./problem.ts";
import type { Terminal } from "./terminal.ts";
import type { TourState, TourStep, TourWorld } from "./tour.ts";

type Tour = {
  steps: readonly TourStep[];
  world: TourWorld;
  state: TourState;
  interrupted: AbortSignal;
  /** A failing step ends the tour and nothing else: a person may have changed what is declared, and meant it. */
  mayFail: boolean;
};

/**
 * Shows the steps in order up to the first surprise, and answers whether all of them passed. Throws `Problem` for a
 * surprise unless the tour may fail, and whatever an interruption threw.
 */
export async function runTour(terminal: Terminal, { steps, mayFail, ...context }: Tour): Promise<boolean> {
  for (const step of steps) {
    const surprise = await runStep(terminal, step, context);
    if (surprise === undefined) continue;
    if (!mayFail) throw surprise;
    terminal.warn(
      "The stack stays up without the rest of the tour; put right what it says, and start again for it",
    );
    return false;
  }
  return true;
}

async function runStep(
  terminal: Terminal,
  { name, title, run }: TourStep,
  { world, state, interrupted }: Pick<Tour, "world" | "state" | "interrupted">,
): Promise<Problem | undefined> {
  interrupted.throwIfAborted();
  const step = terminal.step(name, title);
  try {
    step.done(await run(world, state));
    return undefined;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    step.fail(interrupted.aborted ? "stopped" : message);
    if (interrupted.aborted) throw error;
    return new Problem(`"${title}" went otherwise than it must: ${message}`);
  }
}

import type { Terminal } from "../terminal.ts";
import { messageOf, UserError } from "../user_error.ts";
import type { TourState, TourStep, TourWorld } from "./steps.ts";

type Tour<World> = {
  steps: readonly TourStep<World>[];
  world: World;
  state: TourState;
  interrupted: AbortSignal;
  /** If true, a failing step ends only the tour: someone may have changed the objects on purpose. */
  mayFail: boolean;
};

/**
 * Runs the steps up to the first failure. Resolves to whether all steps passed. Throws `UserError` for a
 * failure unless the tour may fail. Rethrows the error of an interruption.
 */
export async function runTour<World = TourWorld>(
  terminal: Terminal,
  { steps, ...context }: Tour<World>,
): Promise<boolean> {
  for (const step of steps) {
    if (await runStep(terminal, step, context)) continue;
    terminal.warn(
      "The stack stays up without the rest of the tour; correct what it reports, and start again",
    );
    return false;
  }
  return true;
}

/** Runs one step, and returns whether the step passed. */
async function runStep<World>(
  terminal: Terminal,
  { name, title, run }: TourStep<World>,
  { world, state, interrupted, mayFail }: Omit<Tour<World>, "steps">,
): Promise<boolean> {
  interrupted.throwIfAborted();
  const step = terminal.step(name, title);
  try {
    step.done(await run(world, state));
    return true;
  } catch (error) {
    if (interrupted.aborted) {
      step.fail("stopped");
      throw error;
    }
    const message = messageOf(error);
    step.fail(mayFail ? message : error);
    if (mayFail) return false;
    throw new UserError(`"${title}" did not go as expected: ${message}`);
  }
}

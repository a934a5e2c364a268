import { type Context, textOf } from "./command.ts";
import { Failure, UsageFailure } from "./failure.ts";

const SECONDS = 60;
const LOOK_MS = 500;

/** Looks until `done` has something to say, for as long as the options allow. Throws `Failure` after that. */
export async function waitFor<T>(
  { options, clock, wait }: Context,
  what: string,
  done: () => Promise<T | undefined>,
): Promise<T> {
  const seconds = Number(textOf(options, "timeout") ?? SECONDS);
  if (!(seconds > 0)) throw new UsageFailure("--timeout is a number of seconds");
  const end = clock.now().getTime() + seconds * 1000;
  for (;;) {
    const found = await done();
    if (found !== undefined) return found;
    if (clock.now().getTime() >= end) {
      throw new Failure(
        `${what} takes longer than ${seconds} s; kubectl deputize status shows how it goes on`,
      );
    }
    await wait(LOOK_MS);
  }
}

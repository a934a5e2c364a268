import { type Patience, Surprise, within } from "./calls.ts";
import type { ObjectState, Quickstart, QuickstartKind } from "./quickstart.ts";

const JUDGED_MS = 5_000;

/**
 * Waits until `wanted` returns a value for the operator's report about an object. Throws `Surprise` with the
 * operator's message after a timeout, or when the object has waited for a person for 5 s.
 */
export function awaitStatus<T>(
  { quickstart, patience }: { quickstart: Quickstart; patience: Patience },
  kind: QuickstartKind,
  wanted: (objectState: ObjectState) => Promise<T | undefined> | T | undefined,
): Promise<T> {
  const began = performance.now();
  return within(
    `the expected state of the ${kind}`,
    patience.statusMs,
    async () => {
      const objectState = await quickstart.objectState(kind);
      if (!objectState) return undefined;
      const answer = await wanted(objectState);
      if (answer === undefined && objectState.stalled && performance.now() - began > JUDGED_MS) {
        throw new Surprise(await quickstart.explain(kind));
      }
      return answer;
    },
    () => quickstart.explain(kind),
  );
}

import { afterAll, vi } from "vitest";
import { until } from "./process.ts";

/** Long pauses between the steps of loops. A pause ends only when the test ends it. */
export type HeldPauses = {
  /** Resolves when a step is over and a pause of `ms` milliseconds has begun. The result ends the pause. */
  begun(ms: number): Promise<() => void>;
  /** Returns the lengths of the pauses that have begun and not ended. */
  waiting(): number[];
};

/** Holds the pauses of these lengths, in milliseconds, until the end of the file. */
export function holdPauses(lengths: readonly number[]): HeldPauses {
  const held: { ms: number; handle: NodeJS.Timeout; end: () => void }[] = [];
  const [start, clear] = [globalThis.setTimeout, globalThis.clearTimeout];
  const setting = vi.spyOn(globalThis, "setTimeout").mockImplementation(((
    end: () => void,
    ms = 0,
    ...values: []
  ) => {
    if (!lengths.includes(ms)) return start(end, ms, ...values);
    const handle = start(() => {}, 0);
    held.push({ ms, handle, end });
    return handle;
  }) as typeof setTimeout);
  const clearing = vi.spyOn(globalThis, "clearTimeout").mockImplementation((handle) => {
    const n = held.findIndex((pause) => pause.handle === handle);
    if (n >= 0) held.splice(n, 1);
    clear(handle);
  });
  afterAll(() => {
    setting.mockRestore();
    clearing.mockRestore();
  });
  return {
    waiting: () => held.map(({ ms }) => ms).sort((a, b) => a - b),
    async begun(ms) {
      await until(`a pause of ${ms} ms begins`, () => held.some((pause) => pause.ms === ms));
      const [pause] = held.splice(
        held.findIndex((each) => each.ms === ms),
        1,
      );
      return () => pause?.end();
    },
  };
}

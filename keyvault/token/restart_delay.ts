const FIRST_MS = 50;
const LAST_MS = 5_000;
/** A token that was open for this long is stable, so the delays start over. */
const STABLE_MS = 60_000;

/** Delays before starts of the token's process. They double from 50 ms to 5 s. */
export type RestartDelays = {
  /** Returns the next delay in milliseconds. */
  next(): number;
  /** Call it when the token is open. */
  opened(): void;
  /**
   * Call it when the token's process has ended. A token that was open for a minute starts the delays over.
   */
  ended(): void;
  startOver(): void;
};

/**
 * Returns the delays. If the token opens and fails again and again, they keep growing, so that the vault does
 * not log in several times per second. `elapsed` is a monotonic clock in milliseconds.
 */
export function createRestartDelays(elapsed: () => number): RestartDelays {
  let delay = FIRST_MS;
  let openedAt = elapsed();
  const startOver = (): void => {
    delay = FIRST_MS;
  };
  return {
    next() {
      const current = delay;
      delay = Math.min(delay * 2, LAST_MS);
      return current;
    },
    opened() {
      openedAt = elapsed();
    },
    ended() {
      if (elapsed() - openedAt >= STABLE_MS) startOver();
    },
    startOver,
  };
}

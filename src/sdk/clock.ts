/**
 * A source of the current time. The SDK has its own type, because it shares no code with the service's clock.
 */
export type Clock = {
  /** The current time. */
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

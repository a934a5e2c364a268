/** A source of the current time. The package for applications does not share the service's clock. */
export type Clock = {
  /** The current time. */
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

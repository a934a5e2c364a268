/** The time as the package for applications takes it: it shares no clock with the service. */
export type Clock = {
  /** The current time. */
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

/** A source of the current time. The SDK shares no code with the service's clock. */
export type Clock = {
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

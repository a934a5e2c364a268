/** The time as the plugin takes it: it shares no clock with the service. */
export type Clock = {
  /** The current time. */
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

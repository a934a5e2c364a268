/** The plugin's own clock type. The plugin shares no code with the service. */
export type Clock = {
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

/** The lead that a process holds. */
export type Lead = {
  /** Ends when the lead is lost. */
  lost: AbortSignal;
  /** Whether it is certainly held now. It says no as soon as another process may have taken it. */
  isHeld(): boolean;
  /** Gives it up, so that another process may lead immediately. Never rejects. */
  release(): Promise<void>;
};

/** Has one process lead at a time. */
export type Elector = {
  /** Waits until this process leads. `undefined`: `signal` ended before. Never rejects. */
  acquire(signal: AbortSignal): Promise<Lead | undefined>;
};

/** Where there is one process only: it leads. */
export const soleElector: Elector = {
  async acquire(signal) {
    if (signal.aborted) return undefined;
    return {
      lost: new AbortController().signal,
      isHeld: () => true,
      release: async () => undefined,
    };
  },
};

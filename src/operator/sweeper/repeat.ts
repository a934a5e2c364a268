/** Work that is done again and again until it is stopped. */
export type Repetition = {
  /** Resolves when what is under way has ended. */
  stop(): Promise<void>;
};

/** Does the work after `firstMs`, and again `everyMs` after each end of it. A failure is told and no more. */
export function repeat(
  work: () => Promise<void>,
  { firstMs, everyMs, onError }: { firstMs: number; everyMs: number; onError(error: unknown): void },
): Repetition {
  let isStopped = false;
  let timer = setTimeout(run, firstMs);
  let running = Promise.resolve();

  function run(): void {
    running = work()
      .catch(onError)
      .then(() => {
        if (!isStopped) timer = setTimeout(run, everyMs);
      });
  }

  return {
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}

import type { Logger } from "../log.ts";
import type { EraseDue } from "./erase_due.ts";

const INTERVAL_MS = 600_000;

/**
 * Erases what is due now and every ten minutes, until it is stopped. What fails is logged and tried again.
 */
export function keepErasing(erase: EraseDue, log: Logger): { stop(): Promise<void> } {
  let running = run();
  const timer = setInterval(() => {
    running = running.then(run);
  }, INTERVAL_MS);
  timer.unref();

  async function run(): Promise<void> {
    try {
      const { keys, tenants } = await erase();
      if (keys + tenants > 0) log.info({ event: "erased", keys, tenants });
    } catch (error) {
      log.error({ event: "erasing_failed", reason: error instanceof Error ? error.message : "unknown" });
    }
  }

  return {
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}

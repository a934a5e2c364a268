import { startTestWorker } from "../../events/support/worker.ts";

/**
 * Runs a complete worker in a separate process. On request it reports how many bytes of its heap are in use.
 */
const worker = startTestWorker(process.env.DATABASE_URL ?? "");
process.on("message", () => {
  globalThis.gc?.();
  process.send?.(process.memoryUsage().heapUsed);
});
process.once("SIGTERM", () => void worker.stop().then(() => process.exit(0)));
process.once("disconnect", () => process.exit(1));

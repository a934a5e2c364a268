import { startTestWorker } from "../../events/support/worker.ts";

/** A whole worker in a process of its own, which says how many bytes of its heap are in use when asked. */
const worker = startTestWorker(process.env.DATABASE_URL ?? "");
process.on("message", () => {
  globalThis.gc?.();
  process.send?.(process.memoryUsage().heapUsed);
});
process.once("SIGTERM", () => void worker.stop().then(() => process.exit(0)));
process.once("disconnect", () => process.exit(1));

import { startTestWorker } from "../../events/support/worker.ts";

const worker = startTestWorker(process.env.DATABASE_URL ?? "");
process.on("message", () => {
  globalThis.gc?.();
  process.send?.(process.memoryUsage().heapUsed);
});
process.once("SIGTERM", () => void worker.stop().then(() => process.exit(0)));
process.once("disconnect", () => process.exit(1));

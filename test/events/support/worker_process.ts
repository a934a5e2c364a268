import { startTestWorker } from "./worker.ts";

/**
 * A worker in a process of its own, for tests that kill it. It ends with its parent: its standard input ends.
 */
const worker = startTestWorker(process.env.DATABASE_URL ?? "", JSON.parse(process.env.TIMING ?? "null"));
process.stdin.on("end", () => process.exit(1)).resume();
process.once("SIGTERM", () => void worker.stop().then(() => process.exit(0)));
process.stdout.write("started\n");

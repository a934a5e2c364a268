import { pino } from "pino";
import type { DatabaseUrls } from "../../../src/input/database_url.ts";
import { startWorker, type Worker, type WorkerDeps, type WorkerTiming } from "../../../src/worker.ts";
import { agreeing } from "../../support/clock.ts";

/** The encryption key of these tests, in the form of the worker's setting. */
export const SEALING_KEY = Buffer.alloc(32, 7).toString("base64");

/** Parts of a worker that a test replaces. `config` overrides single settings. */
export type WorkerChange = Partial<Omit<WorkerDeps, "config" | "timing">> & {
  config?: Partial<WorkerDeps["config"]>;
};

/** Starts the worker role in this process, and allows callbacks to loopback. */
export function startTestWorker(
  database: string | DatabaseUrls,
  timing?: WorkerTiming,
  { config, ...more }: WorkerChange = {},
): Worker {
  return startWorker({
    config: {
      ...(typeof database === "string" ? { DATABASE_URL: database } : database),
      DATABASE_POOL_SIZE: 17,
      SEALING_KEY,
      SERVICE_WORD: "service",
      DEVELOPMENT: true,
      WEBHOOK_ALLOWED_CIDRS: ["127.0.0.0/8"],
      ...config,
    },
    clock: agreeing(),
    log: pino({ level: "silent" }),
    ...(timing && { timing }),
    ...more,
  });
}

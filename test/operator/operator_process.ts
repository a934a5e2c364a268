import { systemClock } from "../../src/clock.ts";
import type { OperatorConfig } from "../../src/config.ts";
import { createLog } from "../../src/log.ts";
import { startOperator } from "../../src/operator/operator.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";

// A separate process, so that a test can kill the operator. The first argument contains the settings as JSON.
const config = JSON.parse(process.argv[2] ?? "") as OperatorConfig;
const folderTimes = { quietMs: 15, missingMs: 60, rescanMs: 400 };
console.log("starting");
const log = createLog("silent", "test");
await startOperator({
  config,
  clock: systemClock,
  log,
  metrics: operatorMetrics(),
  version: "0",
  fatal: (error) => {
    throw error;
  },
  folderTimes,
});

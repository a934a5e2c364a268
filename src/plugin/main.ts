#!/usr/bin/env node
import { setTimeout as pause } from "node:timers/promises";
import { systemClock } from "./clock.ts";
import { runPlugin } from "./run.ts";
import { processTerminal } from "./terminal.ts";

// Who has seen enough, as `head` has, closes the pipe: that is no fault.
process.stdout.on("error", () => process.exit(0));
process.exitCode = await runPlugin(process.argv.slice(2), {
  terminal: processTerminal(),
  clock: systemClock,
  wait: (ms) => pause(ms),
});

#!/usr/bin/env node
import { setTimeout as pause } from "node:timers/promises";
import { systemClock } from "./clock.ts";
import { runPlugin } from "./run.ts";
import { processTerminal } from "./terminal.ts";

// Exits without an error if a reader such as `head` closes the pipe early.
process.stdout.on("error", () => process.exit(0));
process.exitCode = await runPlugin(process.argv.slice(2), {
  terminal: processTerminal(),
  clock: systemClock,
  wait: (ms) => pause(ms),
});

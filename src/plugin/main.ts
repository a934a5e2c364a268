#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { systemClock } from "./clock.ts";
import { runPlugin } from "./run.ts";
import { processTerminal } from "./terminal.ts";

/** The exit status after a reader such as `head` has closed the pipe: 128 and the number of SIGPIPE. */
const BROKEN_PIPE = 141;

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(BROKEN_PIPE);
});
const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
process.exitCode = await runPlugin(process.argv.slice(2), {
  terminal: processTerminal(),
  clock: systemClock,
  version: (JSON.parse(manifest) as { version: string }).version,
  wait: (ms) => pause(ms),
});

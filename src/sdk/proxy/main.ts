#!/usr/bin/env node
import { environment } from "./config.ts";
import { runMcpProxy } from "./proxy.ts";

const [command, ...args] = process.argv.slice(2);
if (command === "mcp-proxy") {
  await runMcpProxy(args, environment);
} else {
  process.stderr.write("Usage: deputize mcp-proxy [options] -- <command>\n");
  process.exitCode = 2;
}

import { Command } from "commander";
import { systemClock } from "../clock.ts";
import { type Config, loadConfig } from "../config.ts";
import { warnOfExposure } from "../hardening.ts";
import { createLog, type Logger } from "../log.ts";
import { settingsHelp } from "./display/settings.ts";

const ABOUT = `Open the token and answer calls over HTTPS (TLS 1.3, client certificates), one JSON log line for each event. SIGTERM or SIGINT lets the calls in flight end and stops.

Without a PIN file the vault starts sealed: it answers "keyvault status" and waits for "keyvault unseal".`;

/** `keyvault serve` */
export function serveCommand(): Command {
  return new Command("serve")
    .summary("answer calls")
    .description(ABOUT)
    .addHelpText("after", settingsHelp)
    .action(async () => {
      const config = loadConfig();
      await run(config, createLog(config.logLevel));
    });
}

async function run(config: Config, log: Logger): Promise<void> {
  const asked = stopAsked(config.exitOnStdinClose);
  warnOfExposure(config, log);
  const { serve } = await import("../serve.ts");
  const serving = await serve(config, systemClock, log);
  log.info({
    event: "listening",
    host: config.listen.host,
    port: serving.port,
    health_port: serving.healthPort ?? null,
    ...(serving.sealing.state() === undefined
      ? { token: serving.token.info() }
      : { sealed: serving.sealing.state() }),
  });
  log.info({ event: "stopping", reason: await asked });
  await serving.stop();
  log.info({ event: "stopped" });
  process.stdin.unref?.();
}

/**
 * Resolves with the reason when somebody wants the vault to end. Listens from the start, so that no wish is
 * missed.
 */
function stopAsked(whenStdinCloses: boolean): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => resolve(signal));
    if (!whenStdinCloses) return;
    process.stdin.on("close", () => resolve("stdin closed")).on("error", () => resolve("stdin closed"));
    process.stdin.resume();
  });
}

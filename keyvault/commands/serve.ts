import { Command } from "commander";
import { type Config, loadServerConfig } from "../config.ts";
import { warnOfExposure } from "../hardening.ts";
import { createLog, type Logger } from "../log.ts";
import { columnsOf, foldLines } from "./display.ts";

const ABOUT = `Open the token and answer calls over HTTPS (TLS 1.3, client certificates), one JSON log line for each event. SIGTERM or SIGINT stops it after the calls in flight.

Without a PIN file the vault starts sealed: it answers "keyvault status" and waits for "keyvault unseal".`;

/** `keyvault serve` */
export function serveCommand(): Command {
  return new Command("serve")
    .summary("answer calls")
    .description(ABOUT)
    .addHelpText("after", settingsHelp)
    .action(async () => {
      const config = loadServerConfig();
      await run(config, createLog(config.logLevel));
    });
}

async function run(config: Config, log: Logger): Promise<void> {
  const stopRequest = waitForStop(config.exitOnStdinClose);
  warnOfExposure(config, log);
  const { serve } = await import("../serve.ts");
  const serving = await serve(config, "database", log);
  log.info({
    event: "listening",
    host: config.listen.host,
    port: serving.port,
    health_port: serving.healthPort ?? null,
    ...(serving.sealing.state() === undefined
      ? { token: serving.token.info() }
      : { sealed: serving.sealing.state() }),
  });
  log.info({ event: "stopping", reason: await stopRequest });
  await serving.stop();
  log.info({ event: "stopped" });
  process.stdin.unref?.();
}

/**
 * Resolves with the reason to stop the vault. Installs its handlers immediately, so that it misses no signal.
 */
function waitForStop(whenStdinCloses: boolean): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => resolve(signal));
    if (!whenStdinCloses) return;
    process.stdin.on("close", () => resolve("stdin closed")).on("error", () => resolve("stdin closed"));
    process.stdin.resume();
  });
}

const SETTINGS: readonly (readonly [name: string, text: string])[] = [
  ["KEYVAULT_DATA_DIR", "folder with token, PIN file and certificates; required"],
  ["KEYVAULT_DATABASE_URL", "the vault's own database, postgres://…; required"],
  [
    "KEYVAULT_MIGRATION_DATABASE_URL",
    "the same database for the role that owns the tables, for init, migrate and backup restore; default: the URL above",
  ],
  ["…_URL_FILE", "a file that contains one of these URLs"],
  ["KEYVAULT_DATABASE_POOL_SIZE", "the most connections to the database, 4 to 100; default: 7"],
  [
    "KEYVAULT_PKCS11_MODULE",
    "the PKCS#11 library; default: SoftHSM's library, at the path of Linux distributions",
  ],
  ["KEYVAULT_PKCS11_PARAMETERS", "initialization parameters of that library, if it needs any (NSS)"],
  ["KEYVAULT_TOKEN_LABEL", "the token's label; default: deputize"],
  ["KEYVAULT_TOKEN_DIR", "where SoftHSM keeps the token; default: <data>/token"],
  ["KEYVAULT_TOKEN_ENVIRONMENT", "names of variables that another module needs, comma-separated"],
  ["KEYVAULT_PIN_FILE", "the file with the token's PIN; default: <data>/pin"],
  ["KEYVAULT_HOST, _PORT", "where to listen; default: 127.0.0.1, 8443 (0 takes a free port)"],
  ["KEYVAULT_SERVER_NAMES", "names and addresses in the server's certificate; default: localhost,127.0.0.1"],
  [
    "KEYVAULT_TLS_CA_FILE, _CERT_FILE, _KEY_FILE",
    "the server's TLS files; default: <data>/tls/{ca.pem,server.pem,server.key}",
  ],
  ["KEYVAULT_TLS_REVOKED_FILE", "serial numbers of revoked certificates; default: <data>/tls/revoked"],
  ["KEYVAULT_HEALTH_HOST, _PORT", "plain-HTTP /livez and /readyz for probes; off unless the port is set"],
  [
    "KEYVAULT_RECOVERY_KEY_FILE",
    "public half of the key that backups are encrypted to; default: <data>/recovery.pub",
  ],
  [
    "KEYVAULT_AUDIT_HEADS_FILE",
    "a file to which the audit chain's head is appended every minute; default: none",
  ],
  [
    "KEYVAULT_AUDIT_HEADS_LOG_SECONDS",
    "interval in seconds at which the log gets that head, 1 to 3600; default: 60; also at each start, sealing and stop",
  ],
  [
    "KEYVAULT_CEILING",
    "the only scopes that may be delegated, comma-separated, custom:* for all custom scopes; default: no limit",
  ],
  ["KEYVAULT_EXTERNAL_SUBJECTS", "1: allow delegations to keys that are not in this vault; default: 0"],
  [
    "KEYVAULT_RATE_PER_KEY, _PER_TENANT",
    "signatures per second, with bursts of twice as many; default: 250, 1000; 0: no limit",
  ],
  [
    "KEYVAULT_CREATION_RATE_PER_TENANT",
    "keys per second that one caller may create for a tenant; default: 25; 0: no limit",
  ],
  [
    "KEYVAULT_CREATIONS_PER_DAY",
    "keys per day that one caller may create for all tenants; default: 100000; 0: no limit",
  ],
  ["KEYVAULT_KEYS_PER_TENANT", "active keys that a tenant may have; default: 10000; 0: no limit"],
  ["KEYVAULT_MAX_CONNECTIONS", "concurrent connections; default: 1000; 0: no limit"],
  ["KEYVAULT_HANDSHAKE_RATE", "handshakes per second from one address; default: 200; 0: no limit"],
  ["KEYVAULT_LOG_LEVEL", "debug, info, warn, error or silent; default: info"],
  ["KEYVAULT_EXIT_ON_STDIN_CLOSE", "1: stop when standard input ends, for a parent that starts the vault"],
];

const PIN = "The PIN itself is not a setting. Only the process that uses it reads its file.";

/** Returns the settings for the `--help` text, wrapped to the terminal's width. */
export function settingsHelp(): string {
  const lines = SETTINGS.map(([name, text]) => [`  ${name}`, text] as const);
  return `\nSettings (environment):\n${foldLines(lines, 29, columnsOf())}\n${PIN}`;
}

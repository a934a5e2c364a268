import { Command } from "commander";
import { systemClock } from "../clock.ts";
import { loadConfig } from "../config.ts";
import { EXPOSED_REMEDY, exposedFolders } from "../hardening.ts";
import type { InitStep } from "../init.ts";
import { createLog } from "../log.ts";
import { columnsOf, foldLines, print } from "./display.ts";
import { settingsHelp } from "./serve.ts";

const ABOUT = `Make everything that a vault needs and does not have yet: its tables, the token with its PIN file, key-encryption key and audit key, the service key, a TLS authority, and the certificates of the server, the API and one admin.

You can run the command again whenever the vault is stopped. It completes an interrupted run and changes nothing that exists. Without ca.key it makes no certificates. Without the PIN file it does not open the token. If the token refuses the PIN of a complete vault, the command reports this and does not try the PIN again.`;

type Options = { json?: true; pin: boolean; certificates: boolean };

/** `keyvault init` */
export function initCommand(): Command {
  return new Command("init")
    .summary("make token, tables, keys and certificates")
    .description(ABOUT)
    .option("--no-pin", "make no PIN: a new vault needs an existing PIN file")
    .option("--no-certificates", "make no authority and no certificates: they come from elsewhere")
    .option("--json", "print one JSON object for each step")
    .addHelpText("after", settingsHelp)
    .action(async ({ json, pin, certificates }: Options) => {
      const config = loadConfig();
      const report = (step: InitStep): void => print({ json }, step, describe(step));
      const { initialize } = await import("../init.ts");
      const initOptions = { report, makesPin: pin, makesCertificates: certificates };
      await initialize(config, systemClock, createLog("error"), initOptions);
      for (const folder of exposedFolders(config)) process.stderr.write(`${folder}: ${EXPOSED_REMEDY}\n`);
      if (json) return;
      process.stdout.write(
        `\nThe vault in ${config.dataDir} is ready.\nBack up its token and its PIN file, apart from each other.\n`,
      );
    });
}

function describe({ step, created, absent = [] }: InitStep): string {
  const done = created.length === 0 ? "already there" : `made ${created.join(", ")}`;
  const rest = absent.length === 0 ? "" : `; ${describeAbsent(step, absent)}`;
  return foldLines([[step, `${done}${rest}`]], 14, columnsOf());
}

function describeAbsent(step: InitStep["step"], absent: readonly string[]): string {
  if (step === "token") return "not opened, because the PIN file is elsewhere; serve starts sealed";
  return step === "service key"
    ? "not checked, because the token's PIN was refused or not tried; serve starts sealed"
    : `not made, because ca.key is elsewhere: ${absent.join(", ")}`;
}

/** `keyvault migrate` */
export function migrateCommand(): Command {
  return new Command("migrate")
    .summary("bring the tables up to date")
    .description(
      "Migrate the vault's tables to this version, as the role that owns them (KEYVAULT_MIGRATION_DATABASE_URL), and give the role that runs the vault (KEYVAULT_DATABASE_URL) its rights. `init` does this too. `serve` does this only if one role owns the tables and runs the vault.",
    )
    .option("--json", "print JSON")
    .action(async ({ json }: { json?: true }) => {
      const { migrate } = await import("../db/migrate.ts");
      const applied = await migrate(loadConfig(), createLog("error"));
      const done = applied.length === 0 ? "The tables are up to date" : `Applied ${applied.join(", ")}`;
      print({ json }, { applied }, `${done}.\n`);
    });
}

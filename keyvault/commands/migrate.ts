import { Command } from "commander";
import { loadConfig } from "../config.ts";
import { createLog } from "../log.ts";

/** `keyvault migrate` */
export function migrateCommand(): Command {
  return new Command("migrate")
    .summary("bring the tables up to date")
    .description(
      "Bring the vault's tables to this version, as the role that owns them (KEYVAULT_MIGRATION_DATABASE_URL), and give the role that runs (KEYVAULT_DATABASE_URL) its rights. `init` does so too; `serve` only where the two are one role.",
    )
    .option("--json", "print JSON")
    .action(async ({ json }: { json?: true }) => {
      const { migrate } = await import("../db/migrate.ts");
      const applied = await migrate(loadConfig(), createLog("error"));
      if (json) return void process.stdout.write(`${JSON.stringify({ applied })}\n`);
      process.stdout.write(
        applied.length === 0 ? "The tables are up to date.\n" : `Applied ${applied.join(", ")}.\n`,
      );
    });
}

import { Command } from "commander";
import { loadConfig } from "../config.ts";
import { createLog } from "../log.ts";

/** `keyvault migrate` */
export function migrateCommand(): Command {
  return new Command("migrate")
    .summary("bring the tables up to date")
    .description(
      "Bring the vault's tables to this version. `init` and `serve` do so too; this is for those who want it apart.",
    )
    .option("--json", "print JSON")
    .action(async ({ json }: { json?: true }) => {
      const { migrate } = await import("../db/migrate.ts");
      const applied = await migrate(loadConfig().databaseUrl, createLog("error"));
      if (json) return void process.stdout.write(`${JSON.stringify({ applied })}\n`);
      process.stdout.write(
        applied.length === 0 ? "The tables are up to date.\n" : `Applied ${applied.join(", ")}.\n`,
      );
    });
}

import { Command } from "commander";
import { loadConfig } from "../config.ts";
import { migrate } from "../db/migrate.ts";
import { createLog } from "../log.ts";

/** `keyvault migrate` */
export function migrateCommand(): Command {
  return new Command("migrate")
    .summary("bring the tables up to date")
    .description(
      "Bring the vault's tables to this version. `init` and `serve` do so too; this is for those who want it apart.",
    )
    .action(async () => {
      const applied = await migrate(loadConfig().databaseUrl, createLog("error"));
      process.stdout.write(
        applied.length === 0 ? "The tables are up to date.\n" : `Applied ${applied.join(", ")}.\n`,
      );
    });
}

import { Command } from "commander";
import { auditCommand } from "./commands/audit.ts";
import { backupCommand } from "./commands/backup.ts";
import { certCommand } from "./commands/cert.ts";
import { describeError } from "./commands/describe_error.ts";
import { initCommand, migrateCommand } from "./commands/init.ts";
import { kekCommand } from "./commands/kek.ts";
import { keysCommand } from "./commands/keys.ts";
import { sealCommand, unsealCommand } from "./commands/seal.ts";
import { serveCommand } from "./commands/serve.ts";
import { statusCommand } from "./commands/status.ts";
import { adoptCommand, tenantsCommand } from "./commands/tenants.ts";
import { ConfigError } from "./config.ts";

/** Exit code for an invalid setting: EX_CONFIG in sysexits.h. */
const CONFIG_EXIT_CODE = 78;

const ABOUT =
  "Keeps the keys that sign delegations. It makes keys and signs statements that it has checked; it never signs bytes " +
  "that a caller chose, and no key ever leaves it.";

const FIRST_START = `
A first start, with SoftHSM installed and an empty Postgres database of its own:

  export KEYVAULT_DATA_DIR=/var/lib/keyvault
  export KEYVAULT_DATABASE_URL=postgres://keyvault:…@127.0.0.1/keyvault
  keyvault init     # token, PIN file, tables, service key, certificates
  keyvault serve    # HTTPS on 127.0.0.1:8443, for those certificates

With a second role that owns the tables (KEYVAULT_MIGRATION_DATABASE_URL, for
init only) the running vault cannot rewrite its audit: keyvault serve --help.

Settings come from the environment only: "keyvault serve --help" lists them.
docs/keyvault_reference.md has the rest.`;

/**
 * Runs the command that the arguments name. For a failure that the user can correct, writes one line to
 * standard error and sets the exit code. Throws any other error.
 */
export async function runProgram(args: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(args, { from: "user" });
  } catch (error) {
    const message = describeError(error);
    if (message === undefined) throw error;
    console.error(`keyvault: ${message}`);
    process.exitCode = error instanceof ConfigError ? CONFIG_EXIT_CODE : 1;
  }
}

/** A command loads its modules only when it runs, so help texts and usage errors load none of them. */
function createProgram(): Command {
  const program = new Command("keyvault")
    .description(ABOUT)
    .addHelpText("after", FIRST_START)
    .addCommand(initCommand())
    .addCommand(serveCommand())
    .addCommand(statusCommand())
    .addCommand(sealCommand())
    .addCommand(unsealCommand())
    .addCommand(keysCommand())
    .addCommand(tenantsCommand())
    .addCommand(adoptCommand())
    .addCommand(kekCommand())
    .addCommand(auditCommand())
    .addCommand(backupCommand())
    .addCommand(certCommand())
    .addCommand(migrateCommand());
  complainInOneLine(program);
  return program;
}

/** Reports wrong usage in one line on standard error, which refers to the command's help. */
function complainInOneLine(command: Command, above = ""): void {
  const name = `${above}${command.name()}`;
  command.configureOutput({
    outputError: (text, write) => write(`${complaintOf(text)}; see "${name} --help"\n`),
  });
  for (const sub of command.commands) complainInOneLine(sub, `${name} `);
}

function complaintOf(text: string): string {
  return `keyvault: ${text
    .trim()
    .replace(/^error: /, "")
    .replaceAll(/\s*\n\s*/g, " ")}`;
}

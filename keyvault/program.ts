import { readFileSync } from "node:fs";
import { Command } from "commander";
import { auditCommand } from "./commands/audit.ts";
import { backupCommand } from "./commands/backup.ts";
import { certCommand } from "./commands/cert.ts";
import { describeError, statusOf } from "./commands/describe_error.ts";
import { initCommand, migrateCommand } from "./commands/init.ts";
import { kekCommand } from "./commands/kek.ts";
import { keysCommand } from "./commands/keys.ts";
import { sealCommand, unsealCommand } from "./commands/seal.ts";
import { serveCommand } from "./commands/serve.ts";
import { statusCommand } from "./commands/status.ts";
import { adoptCommand, tenantsCommand } from "./commands/tenants.ts";
import { exitStatus } from "./errors.ts";

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
    process.exitCode = statusOf(error);
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
  const manifest = readFileSync(new URL("package.json", import.meta.url), "utf8");
  const { version } = JSON.parse(manifest) as { version: string };
  behaveAlike(program, version);
  return program;
}

/**
 * Gives each command `--version`, and reports wrong usage with its exit status and in one line on standard
 * error, which refers to the command's help.
 */
function behaveAlike(command: Command, version: string, above = ""): void {
  const name = `${above}${command.name()}`;
  command
    .version(version)
    .configureOutput({
      outputError: (text, write) => write(`${complaintOf(text)}; see "${name} --help"\n`),
    })
    .exitOverride(({ exitCode }) => {
      process.exit(exitCode === 0 ? exitStatus.done : exitStatus.usage);
    });
  for (const sub of command.commands) behaveAlike(sub, version, `${name} `);
}

function complaintOf(text: string): string {
  return `keyvault: ${text
    .trim()
    .replace(/^error: /, "")
    .replaceAll(/\s*\n\s*/g, " ")}`;
}

import { Command, Option } from "commander";
import { StartRefused } from "./config.ts";

/**
 * `deputize <role>`: one program, one role a process. Each role is loaded only when it is asked for, so that a role
 * holds nothing of the others.
 */
const collected = (value: string, earlier: string[] = []) => [...earlier, value];

const program = new Command("deputize")
  .description("Lends an AI agent part of a person's authority: issues, keeps and checks delegations.")
  .showHelpAfterError("(deputize --help lists the roles)");

program
  .command("dev")
  .description("Run everything on this machine, show the main job once, and stay up")
  .showHelpAfterError("(npm start -- --help lists the options)")
  .option("--once", "end after the tour")
  .option("--json", "print one JSON object per step")
  .option("--data <folder>", "where everything is kept", ".deputize")
  .addOption(new Option("--port <port>", "port of the API on 127.0.0.1; 0 takes a free one").default("8080"))
  .option("--alias <word>", "answer under this word too, besides `service`; may be repeated", collected)
  .action(async (options) => {
    const { runDev } = await import("./dev/dev.ts");
    process.exitCode = await runDev(options);
  });

program
  .command("api")
  .description("Serve the HTTP API")
  .action(async () => (await import("./roles.ts")).runApi());

program
  .command("worker")
  .description("Relay events and deliver webhooks")
  .action(async () => (await import("./roles.ts")).runWorker());

program
  .command("operator")
  .description("Make declared platforms, agents and delegations true")
  .action(async () => (await import("./roles.ts")).runOperator());

program
  .command("migrate")
  .description("Bring the database to this version's schema")
  .action(async () => (await import("./roles.ts")).runMigrate());

program
  .command("reconcile")
  .description("Compare the ledger with balances and history; exit status 1 when they differ")
  .action(async () => {
    process.exitCode = await (await import("./roles.ts")).runReconcile();
  });

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof StartRefused)) throw error;
  console.error(error.message);
  process.exitCode = 78;
}

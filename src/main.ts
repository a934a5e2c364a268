import { setFlagsFromString } from "node:v8";

/** Node options of every process, unless the user has already set them. */
const OPTIONS = {
  /** Size in MB of one semi-space. Node's default of 32 would use 64 MB for the two semi-spaces. */
  "--max-semi-space-size": 8,
  /** Threads for garbage collection and compilation. More threads would take processor time from calls. */
  "--v8-pool-size": 1,
  /** Milliseconds to connect to one of several addresses of a name. Node's default of 500 is too short. */
  "--network-family-autoselection-attempt-timeout": 2_000,
};
/** Runs a full garbage collection when the heap has grown by this percentage, not to four times its size. */
const GROWTH = "--heap-growing-percent=40";

restartWithOptions();

// These modules are imported only now. If the process replaced itself above, it would load them twice.
const [
  commander,
  { StartError, WRONG_SETTING },
  { behaveAlike, endQuietly, exitStatus, isMissingFromImage, UsageError },
  { declareEvents },
  { declareCheck },
  { declareMcpProxy },
] = await Promise.all([
  import("commander"),
  import("./config.ts"),
  import("./input/exit_status.ts"),
  import("./commands/events.ts"),
  import("./commands/check.ts"),
  import("./commands/mcp_proxy.ts"),
]);

endQuietly();

/** Collects the values of an option that may be repeated. */
const collected = (value: string, earlier: string[] = []) => [...earlier, value];

/** `deputize <role>`: one role per process. A role's code is imported only when that role runs. */
const program = new commander.Command("deputize")
  .description("Lends an AI agent part of a person's authority: issues, keeps and checks delegations.")
  .showHelpAfterError("(deputize --help lists the roles)");

program
  .command("dev")
  .description("Run the whole product on this machine, show a tour of its main use, and keep running")
  .showHelpAfterError("(npm start -- --help lists the options)")
  .option("--once", "exit after the tour")
  .option("--json", "print one JSON object per step")
  .option("--data <folder>", "folder for all data", ".deputize")
  .addOption(
    new commander.Option("--port <port>", "port of the API on 127.0.0.1; 0 chooses a free port").default(
      "8080",
    ),
  )
  .option("--alias <word>", "answer under this word too, besides `service`; may be repeated", collected)
  .option("--kafka", "send events through a real Kafka; needs Java 17 or newer")
  .option(
    "--credits <usd>",
    "US dollars of credit for new accounts; the tour's account gets at least this much",
  )
  .action(async (options) => {
    const { runDev } = await import("./dev/dev.ts");
    process.exitCode = await runDev(options);
  });

program
  .command("tour")
  .description("Show a tour on a cluster where a release runs, and remove what the tour created")
  .option("--kubeconfig <file>", "kubeconfig file; kubectl's default if omitted")
  .option("--context <name>", "context in the kubeconfig")
  .option("--release <name>", "name of the release", "deputize")
  .option("--release-namespace <name>", "namespace of the release", "deputize-system")
  .option("--namespace <name>", "use this namespace and keep it, instead of a temporary one")
  .option("--email <address>", "e-mail address of the account; tour@example.test in a trial")
  .option("--mail-code <where>", "`-` prompts for the mailed code; needed unless the release is a trial")
  .option("--no-webhooks", "run no webhook receiver")
  .option("--timeout <seconds>", "how long each wait may take", "120")
  .option("--json", "print one JSON object per step")
  .action(async (options) => {
    const { runClusterTour } = await import("./dev/tour/cluster/tour.ts");
    process.exitCode = await runClusterTour(options);
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
  .description("Reconcile declared platforms, agents and delegations")
  .option("--watch-namespaces <names>", "reconcile only these namespaces; overrides WATCH_NAMESPACES")
  .option(
    "--ended-ttl <duration>",
    "delete Delegations this long after their end, such as 720h; overrides ENDED_TTL",
  )
  .action(async ({ watchNamespaces, endedTtl }) => {
    const options = { WATCH_NAMESPACES: watchNamespaces, ENDED_TTL: endedTtl };
    await (await import("./roles.ts")).runOperator(options);
  });

program
  .command("migrate")
  .description("Migrate the database to this version's schema")
  .action(async () => {
    process.exitCode = await (await import("./roles.ts")).runMigrate();
  });

program
  .command("reconcile")
  .description("Compare the ledger with balances and history; exit status 1 if they differ")
  .action(async () => {
    process.exitCode = await (await import("./roles.ts")).runReconcile();
  });

program
  .command("doctor")
  .description("Check what this installation needs; exit status 1 if a check failed")
  .argument("[role...]", "api, worker, operator or migrate; default: the roles whose settings are set")
  .option("--egress <host:port>", "public server to connect to instead of example.com:443, or none")
  .option("--json", "print one JSON object")
  .action(async (roles, options) => {
    const { runDoctor } = await import("./doctor/doctor.ts");
    process.exitCode = await runDoctor({ ...options, roles });
    // A connection that still hangs would keep the process alive.
    process.stdout.write("", () => process.exit());
  });

const credits = program.command("credits").description("Grant credit to accounts, and show their credit");
const openCredits = async () => (await import("./roles.ts")).openCredits();
const ACCOUNT = "--account <id or e-mail>";

credits
  .command("grant")
  .description("Credit an account; the same reference grants once")
  .requiredOption(ACCOUNT, "the account")
  .requiredOption("--amount <usd>", "US dollars, at most six decimals")
  .requiredOption("--reason <text>", "why, in one line that the account's owner can read")
  .option("--reference <id>", "unique reference, such as a payment's id; generated if omitted")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openCredits()).grant(options);
  });

credits
  .command("terms")
  .description("Choose whether an account pays before or after its decisions")
  .requiredOption(ACCOUNT, "the account")
  .option("--postpaid", "decisions are invoiced, and need no credit")
  .option("--prepaid", "decisions use the account's credit")
  .requiredOption("--reason <text>", "why, in one line that the account's owner can read")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openCredits()).terms(options);
  });

credits
  .command("show")
  .description("Show an account's credit")
  .requiredOption(ACCOUNT, "the account")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openCredits()).show(options);
  });

credits
  .command("list")
  .description("List an account's postings, newest first")
  .requiredOption(ACCOUNT, "the account")
  .option("--limit <number>", "number of items, 1 to 100; 25 if omitted")
  .option("--cursor <text>", "cursor from the output of the previous page")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openCredits()).list(options);
  });

const history = program.command("history").description("Archive months of the history, and check archives");
const openHistory = async () => (await import("./roles.ts")).openHistory();

history
  .command("archive")
  .description("Write a completed month to files, verify them, and mark the month as archived")
  .requiredOption("--month <month>", "the month, in UTC, such as 2026-01")
  .requiredOption("--to <folder>", "folder in which the month's folder is created")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openHistory()).archive(options);
  });

history
  .command("check")
  .description("Check an archive, without a database; exit status 1 if it is incomplete or damaged")
  .requiredOption("--from <folder>", "the folder of a month")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openHistory()).check(options);
  });

declareEvents(program);
declareCheck(program);
declareMcpProxy(program);
behaveAlike(program);

// Without a handler, SIGUSR1 would open Node's inspector, which every local user could access.
process.on("SIGUSR1", () => {});

try {
  await program.parseAsync();
} catch (error) {
  if (isMissingFromImage(error)) {
    console.error(
      "This command is not in the image. Run it in the project's folder: npm run deputize -- --help",
    );
    process.exitCode = 1;
  } else if (error instanceof UsageError) {
    console.error(`error: ${error.message}`);
    process.exitCode = exitStatus.usage;
  } else if (error instanceof StartError) {
    console.error(error.message);
    // A role that has opened connections would not end otherwise.
    process.exit(WRONG_SETTING);
  } else {
    throw error;
  }
}

function restartWithOptions(): void {
  const { execArgv, execPath, argv, execve, env } = process;
  // Node also accepts its options with underscores.
  const given = [...execArgv, env.NODE_OPTIONS ?? ""].map((options) => options.replaceAll("_", "-"));
  const missing = Object.entries(OPTIONS).filter(([name]) => !given.some((option) => option.includes(name)));
  if (missing.length === 0 || execve === undefined) {
    setFlagsFromString(GROWTH);
    return;
  }
  const options = missing.map(([name, value]) => `${name}=${value}`);
  execve(execPath, [execPath, ...options, GROWTH, ...execArgv, ...argv.slice(1)], env);
}

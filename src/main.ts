import { setFlagsFromString } from "node:v8";
import type { Command } from "commander";

/** How a process is started, unless somebody has chosen otherwise. */
const OPTIONS = {
  /** MB of new objects before they are looked through; with the 32 of Node, 64 are taken for them. */
  "--max-semi-space-size": 8,
  /** Threads that collect garbage and compile. More of them take the processor from what calls wait for. */
  "--v8-pool-size": 1,
};
/** The whole heap is collected when it has grown by so many percent, not when it is four times as large. */
const GROWTH = "--heap-growing-percent=40";

keepToItself();

// Not before: they would be loaded twice.
const [commander, { StartError, WRONG_SETTING }] = await Promise.all([
  import("commander"),
  import("./config.ts"),
]);

/**
 * `deputize <role>`: one program, one role a process. Each role is loaded only when it is asked for, so that
 * a role holds nothing of the others.
 */
const collected = (value: string, earlier: string[] = []) => [...earlier, value];

const program = new commander.Command("deputize")
  .description("Lends an AI agent part of a person's authority: issues, keeps and checks delegations.")
  .showHelpAfterError("(deputize --help lists the roles)");

program
  .command("dev")
  .description("Run everything on this machine, show the main job once, and stay up")
  .showHelpAfterError("(npm start -- --help lists the options)")
  .option("--once", "end after the tour")
  .option("--json", "print one JSON object per step")
  .option("--data <folder>", "where everything is kept", ".deputize")
  .addOption(
    new commander.Option("--port <port>", "port of the API on 127.0.0.1; 0 takes a free one").default("8080"),
  )
  .option("--alias <word>", "answer under this word too, besides `service`; may be repeated", collected)
  .option("--kafka", "have a real Kafka carry events, which needs Java 17 or newer")
  .option("--credits <usd>", "US dollars that accounts start with, and that the tour's has at least")
  .action(async (options) => {
    const { runDev } = await import("./dev/dev.ts");
    process.exitCode = await runDev(options);
  });

program
  .command("tour")
  .description("Show the main job on a cluster where a release runs, and take away what it made")
  .option("--kubeconfig <file>", "how kubectl reaches the cluster; its own when left out")
  .option("--context <name>", "a context of it")
  .option("--release <name>", "the release", "deputize")
  .option("--release-namespace <name>", "its namespace", "deputize-system")
  .option("--namespace <name>", "use this namespace and keep it, in place of one of the tour's own")
  .option("--email <address>", "whose account it is; tour@example.test in a trial")
  .option("--mail-code <where>", "- asks for the code that is mailed, where the release is no trial")
  .option("--no-webhooks", "without a receiver of webhooks")
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
  .description("Make declared platforms, agents and delegations true")
  .option("--watch-namespaces <names>", "look at these namespaces only; as WATCH_NAMESPACES")
  .option("--ended-ttl <duration>", "delete Delegations so long after their end, as in 720h; as ENDED_TTL")
  .action(async ({ watchNamespaces, endedTtl }) => {
    const options = { WATCH_NAMESPACES: watchNamespaces, ENDED_TTL: endedTtl };
    await (await import("./roles.ts")).runOperator(options);
  });

program
  .command("migrate")
  .description("Bring the database to this version's schema")
  .action(async () => {
    process.exitCode = await (await import("./roles.ts")).runMigrate();
  });

program
  .command("reconcile")
  .description("Compare the ledger with balances and history; exit status 1 when they differ")
  .action(async () => {
    process.exitCode = await (await import("./roles.ts")).runReconcile();
  });

const credits = program.command("credits").description("Grant credit to accounts, and see what they have");
const openCredits = async () => (await import("./roles.ts")).openCredits();
const ACCOUNT = "--account <id or e-mail>";

credits
  .command("grant")
  .description("Credit an account; the same reference grants once")
  .requiredOption(ACCOUNT, "whose credit it is")
  .requiredOption("--amount <usd>", "US dollars, at most six decimals")
  .requiredOption("--reason <text>", "why, in one line that the account's owner can read")
  .option("--reference <id>", "what it is for, such as a payment's id; left out, a new one is made")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openCredits()).grant(options);
  });

credits
  .command("show")
  .description("Show what an account has")
  .requiredOption(ACCOUNT, "whose credit it is")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openCredits()).show(options);
  });

credits
  .command("list")
  .description("List an account's postings, newest first")
  .requiredOption(ACCOUNT, "whose credit it is")
  .option("--limit <number>", "how many, 1 to 100; 25 when left out")
  .option("--cursor <text>", "where the page before said that the next one begins")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openCredits()).list(options);
  });

const history = program.command("history").description("Archive months of the history, and check archives");
const openHistory = async () => (await import("./roles.ts")).openHistory();

history
  .command("archive")
  .description("Write a month that is over into files, read them back, and note it as archived")
  .requiredOption("--month <month>", "which one, in UTC, such as 2026-01")
  .requiredOption("--to <folder>", "where its folder is made")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openHistory()).archive(options);
  });

history
  .command("check")
  .description("Read an archive, without a database; exit status 1 when it is not whole")
  .requiredOption("--from <folder>", "the folder of a month")
  .option("--json", "print one JSON object")
  .action(async (options) => {
    process.exitCode = await (await openHistory()).check(options);
  });

const events = program.command("events").description("Look at events, and send them again");
const openEvents = async () => (await import("./roles.ts")).openEvents();
const JSON_OPTION = ["--json", "print one JSON object"] as const;
const DRY_RUN = ["--dry-run", "say what would be done, and change nothing"] as const;

events
  .command("status")
  .description("Show how events are doing; exit status 3 when Kafka cannot be asked")
  .option(...JSON_OPTION)
  .action(async (options) => {
    process.exitCode = await (await openEvents()).status(options);
  });

const letters = events.command("dead-letters").description("What consumers could not handle");
const filtered = (command: Command) =>
  command
    .option("--consumer <name>", "put aside by this consumer")
    .option("--type <type>", "of events of this type")
    .option("--since <time>", "put aside at this time or later")
    .option("--until <time>", "put aside before this time");

filtered(letters.command("list"))
  .description("List dead letters, newest first")
  .option("--limit <number>", "how many, 1 to 100; 25 when left out")
  .option("--cursor <text>", "where the page before said that the next one begins")
  .option(...JSON_OPTION)
  .action(async (options) => {
    process.exitCode = await (await openEvents()).listLetters(options);
  });

letters
  .command("show")
  .description("Show what consumers put aside of an event, with its payload")
  .argument("<event_id>")
  .option(...JSON_OPTION)
  .action(async (eventId, options) => {
    process.exitCode = await (await openEvents()).showLetters({ ...options, eventId });
  });

filtered(letters.command("replay"))
  .description("Give events to the consumers again that put them aside")
  .argument("[event_id...]", "their events; or give filters, or --all")
  .option("--all", "all dead letters")
  .option(...DRY_RUN)
  .option(...JSON_OPTION)
  .action(async (eventIds, options) => {
    process.exitCode = await (await openEvents()).replayLetters({ ...options, eventIds });
  });

events
  .command("replay")
  .description("Bring events of a range of time to their topic again, under the same ids")
  .requiredOption("--from <time>", "what happened at this time or later")
  .requiredOption("--to <time>", "what happened before this time")
  .option("--topic <name>", "lifecycle or audit", "lifecycle")
  .option("--connection <id>", "of this connection")
  .option("--account <id>", "of this account and its connections")
  .option("--type <type>", "events of this type")
  .option(...DRY_RUN)
  .option(...JSON_OPTION)
  .action(async (options) => {
    process.exitCode = await (await openEvents()).replayRange(options);
  });

// Or SIGUSR1 would open Node's inspector, which every local user could read.
process.on("SIGUSR1", () => {});

try {
  await program.parseAsync();
} catch (error) {
  if (isLeftOut(error)) {
    console.error(
      "This command is not in the image. Run it in the project's folder: npm run deputize -- --help",
    );
    process.exitCode = 1;
  } else if (error instanceof StartError) {
    console.error(error.message);
    process.exitCode = WRONG_SETTING;
  } else {
    throw error;
  }
}

/** Starts this program again in its own place with what of the above nobody has given. */
function keepToItself(): void {
  const { execArgv, execPath, argv, execve, env } = process;
  // The engine takes its options with underscores, too.
  const given = [...execArgv, env.NODE_OPTIONS ?? ""].map((options) => options.replaceAll("_", "-"));
  const missing = Object.entries(OPTIONS).filter(([name]) => !given.some((option) => option.includes(name)));
  if (missing.length === 0 || execve === undefined) {
    setFlagsFromString(GROWTH);
    return;
  }
  const options = missing.map(([name, value]) => `${name}=${value}`);
  execve(execPath, [execPath, ...options, GROWTH, ...execArgv, ...argv.slice(1)], env);
}

/** Whether a command's module is of those that develop, which the image does not have. */
function isLeftOut(error: unknown): boolean {
  const { code, url } = error as { code?: unknown; url?: unknown };
  const folder = new URL("./dev/", import.meta.url).href;
  return code === "ERR_MODULE_NOT_FOUND" && typeof url === "string" && url.startsWith(folder);
}

import type { Command } from "commander";

/** Declares `deputize events`. Its code is imported only when it runs. */
export function declareEvents(program: Command): void {
  const events = program.command("events").description("Show the state of events, and send them again");
  const openEvents = async () => (await import("../roles.ts")).openEvents();
  const JSON_OPTION = ["--json", "print one JSON object"] as const;
  const DRY_RUN = ["--dry-run", "print what would be done, and change nothing"] as const;

  events
    .command("status")
    .description("Show the state of events; exit status 3 if Kafka does not answer")
    .option(...JSON_OPTION)
    .action(async (options) => {
      process.exitCode = await (await openEvents()).status(options);
    });

  const letters = events
    .command("dead-letters")
    .description("Show and replay events that consumers could not handle");
  const filtered = (command: Command) =>
    command
      .option("--consumer <name>", "only those of this consumer")
      .option("--type <type>", "only events of this type")
      .option("--since <time>", "added at this time or later")
      .option("--until <time>", "added before this time");

  filtered(letters.command("list"))
    .description("List dead letters, newest first")
    .option("--limit <number>", "number of items, 1 to 100; 25 if omitted")
    .option("--cursor <text>", "cursor from the output of the previous page")
    .option(...JSON_OPTION)
    .action(async (options) => {
      process.exitCode = await (await openEvents()).listLetters(options);
    });

  letters
    .command("show")
    .description("Show the dead letters of an event, with its payload")
    .argument("<event_id>")
    .option(...JSON_OPTION)
    .action(async (eventId, options) => {
      process.exitCode = await (await openEvents()).showLetters({ ...options, eventId });
    });

  filtered(letters.command("replay"))
    .description("Send dead letters to their consumers again")
    .argument("[event_id...]", "ids of the events; alternatively, use filters or --all")
    .option("--all", "all dead letters")
    .option(...DRY_RUN)
    .option(...JSON_OPTION)
    .action(async (eventIds, options) => {
      process.exitCode = await (await openEvents()).replayLetters({ ...options, eventIds });
    });

  events
    .command("replay")
    .description("Publish the events of a time range again, with the same ids")
    .requiredOption("--from <time>", "events from this time on")
    .requiredOption("--to <time>", "events before this time")
    .option("--topic <name>", "lifecycle or audit", "lifecycle")
    .option("--connection <id>", "only events of this connection")
    .option("--account <id>", "only events of this account and its connections")
    .option("--type <type>", "only events of this type")
    .option(...DRY_RUN)
    .option(...JSON_OPTION)
    .action(async (options) => {
      process.exitCode = await (await openEvents()).replayRange(options);
    });
}

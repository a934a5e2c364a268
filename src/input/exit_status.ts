import { readFileSync } from "node:fs";
import type { Command } from "commander";

/** The exit statuses of all commands. `docs/exit_statuses.md` explains them. */
export const exitStatus = {
  done: 0,
  /** The command refused or failed, or it checked something and found a fault. */
  failed: 1,
  /** The command line is wrong. Nothing was done. */
  usage: 2,
  /** A part that the command needs, such as the database, does not answer. It may be repeated. */
  unavailable: 3,
  /** A setting, or a port or file that it names, must be changed first: EX_CONFIG in sysexits.h. */
  setting: 78,
  /** The user pressed Ctrl-C. */
  interrupted: 130,
  /** The reader of the output has closed the pipe: 128 and the number of SIGPIPE. */
  brokenPipe: 141,
} as const;

/** The command line is wrong, so nothing was done. The message says how to correct it. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** Ends this process without a message when the reader of its output, such as `head`, has ended. */
export function endQuietly(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(exitStatus.brokenPipe);
  });
}

/** Gives a command and its subcommands `--version`, and the exit status for a wrong command line. */
export function behaveAlike(command: Command): void {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const { version } = JSON.parse(manifest) as { version: string };
  const prepare = (each: Command): void => {
    each.version(version).exitOverride(({ exitCode }) => {
      process.exit(exitCode === 0 ? exitStatus.done : exitStatus.usage);
    });
    each.commands.forEach(prepare);
  };
  prepare(command);
}

/** Returns whether an error means that the image does not contain this development command. */
export function isMissingFromImage(error: unknown): boolean {
  const { code, url } = error as { code?: unknown; url?: unknown };
  const folder = new URL("../dev/", import.meta.url).href;
  return code === "ERR_MODULE_NOT_FOUND" && typeof url === "string" && url.startsWith(folder);
}

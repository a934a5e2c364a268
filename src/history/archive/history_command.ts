import { addSeconds, type Clock } from "../../clock.ts";
import { followDatabase } from "../../db/clock/service_clock.ts";
import { type Database, openDatabase } from "../../db/database.ts";
import { outageReason } from "../../db/errors.ts";
import { type Month, parseMonth } from "../../db/months.ts";
import { throwRefusal } from "../../db/refusals.ts";
import { exitStatus, UsageError } from "../../input/exit_status.ts";
import { type CheckedArchive, checkArchive } from "./check_archive.ts";
import { HistoryError } from "./form.ts";
import { noteArchive, writeArchive } from "./write_archive.ts";

/** Options of `deputize history`, as given on the command line. */
export type ArchiveOptions = { month: string; to: string; json?: boolean };
export type CheckOptions = { from: string; json?: boolean };

type Stream = { write(text: string): unknown };

/** Dependencies of the commands. Without `clock`, the database's clock counts. */
export type HistoryCommandsDeps = { url(): string; clock?: Clock; out: Stream; err: Stream };

/** The commands of `deputize history`. */
export type HistoryCommands = {
  archive(options: ArchiveOptions): Promise<number>;
  check(options: CheckOptions): Promise<number>;
};

/** Seconds after a month in which it may still receive rows, because clocks differ and calls take time. */
const LATE_SECONDS = 3_600;
const REMEDY =
  "Use a copy of the archive, or archive the month into another folder while the database has it";

/**
 * Creates the commands. Each prints what it did, or one line with an error, and returns the exit status. 0:
 * the command succeeded and the archive is complete. 1: the command was refused, or an archive is
 * incomplete. 2: the command line is wrong. 3: the database or the folder could not be used. An interrupted
 * command can be run again.
 */
export function createHistoryCommands(deps: HistoryCommandsDeps): HistoryCommands {
  return {
    archive: (options) => run(deps, options, () => archive(deps, options)),
    check: (options) =>
      run(deps, options, async () => ({ ...(await checkWhole(options.from)), folder: options.from })),
  };
}

type Report = CheckedArchive & { folder: string; repeated?: boolean };

async function archive(deps: HistoryCommandsDeps, options: ArchiveOptions): Promise<Report> {
  const month = parseMonth(options.month);
  if (month === undefined) throw new UsageError("--month is not a month such as 2026-01");
  const url = deps.url();
  const clock = deps.clock ?? (await followDatabase(url));
  refuseEarly(month, clock.now());
  const db = openDatabase({
    url,
    name: "deputize-history",
    max: 1,
    idleTransactionMs: 0,
    onError: () => {},
  });
  try {
    return await archiveMonth(db, { month, to: options.to }, clock);
  } finally {
    await db.destroy();
  }
}

function refuseEarly(month: Month, now: Date): void {
  const over = addSeconds(month.to, LATE_SECONDS);
  if (now < over) {
    throw new HistoryError(`${month.name} may still get rows: archive it at ${over.toISOString()} or later`);
  }
}

async function archiveMonth(
  db: Database,
  wanted: { month: Month; to: string },
  clock: Clock,
): Promise<Report> {
  const { folder, repeated } = await writeArchive(db, wanted);
  const checked = await checkWhole(folder);
  await noteArchive(db, checked, clock.now());
  return { ...checked, folder, repeated };
}

/** Checks an archive. The message of a refusal also says what to do. */
async function checkWhole(folder: string): Promise<CheckedArchive> {
  try {
    return await checkArchive(folder);
  } catch (error) {
    if (!(error instanceof HistoryError)) throw error;
    throw new HistoryError(`${error.message}. ${REMEDY}`);
  }
}

async function run(
  { out, err }: HistoryCommandsDeps,
  { json: asJson }: { json?: boolean },
  command: () => Promise<Report>,
): Promise<number> {
  try {
    const report = await command();
    out.write(asJson ? `${JSON.stringify(jsonOf(report))}\n` : `${linesOf(report).join("\n")}\n`);
    return 0;
  } catch (error) {
    throwRefusal(error);
    const isUsage = error instanceof UsageError;
    const said = isUsage || error instanceof HistoryError;
    err.write(`deputize history: ${said ? error.message : unusable(error)}\n`);
    if (isUsage) return exitStatus.usage;
    return said ? exitStatus.failed : exitStatus.unavailable;
  }
}

function jsonOf({ month, folder, hash, manifest, receipts, repeated }: Report) {
  return {
    month: month.name,
    folder,
    manifest: `sha256:${hash.toString("hex")}`,
    ...(repeated === undefined ? {} : { repeated }),
    receipts,
    files: manifest.files,
  };
}

function linesOf({ month, folder, hash, manifest, receipts, repeated }: Report): string[] {
  const done = { true: "Was archived before, and is whole", false: "Archived", undefined: "Whole" } as const;
  return [
    `${done[`${repeated}`]}: ${month.name} in ${folder}`,
    ...manifest.files.map(({ table, rows, bytes }) => `${table.padEnd(16)} ${rows} rows in ${bytes} bytes`),
    `Receipts         ${receipts}, each with its hash`,
    `Manifest         sha256:${hash.toString("hex")}`,
  ];
}

/** Describes an error of the driver or the file system. Neither contains a row's value or a password. */
function unusable(error: unknown): string {
  const { syscall, code } = error as NodeJS.ErrnoException;
  const isFile = ["open", "mkdir", "rename", "write", "fsync", "read", "unlink", "rm"].includes(
    syscall ?? "",
  );
  return isFile
    ? `the folder could not be used (${code})`
    : `the database could not be used (${outageReason(error)})`;
}

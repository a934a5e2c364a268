import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import { appendHead } from "../audit/head_file.ts";
import type { AuditPage, AuditView } from "../audit/list.ts";
import { systemClock } from "../clock.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "./ask_vault.ts";
import { print } from "./display.ts";
import { wholeNumber } from "./read_input.ts";

const FOLLOW_MS = 1_000;
const NARROWEST = 80;
const DEFAULT_WIDTH = 120;

const TAIL = `Show the newest audit records of a running vault, oldest first. Needs an admin's or auditor's certificate.

Exit status: 0, or 3 when the vault does not answer.`;

const EXPORT = `Append the audit chain's head, as a running vault reports it, to a file: one line, "<time> <number>:<code>".

Keep the file where nobody who can change the database can write. "keyvault audit verify --heads <file>" then detects that the newest records were cut off. A vault with KEYVAULT_AUDIT_HEADS_FILE appends its head automatically every minute.`;

type TailOptions = RemoteOptions & { lines: number; follow?: true };

/** Returns the command `keyvault audit tail`. */
export function auditTailCommand(): Command {
  const command = new Command("tail")
    .summary("show the newest records")
    .description(TAIL)
    .option("-n, --lines <count>", "how many records, 1 to 1000", parseCount, 20)
    .option("-f, --follow", "print new records as they are written, until stopped");
  return withRemoteOptions(command).action(async (options: TailOptions) => {
    const width = Math.max(process.stdout.columns ?? DEFAULT_WIDTH, NARROWEST);
    const printRecord = (record: AuditView) => print(options, record, `${auditLine(record, width)}\n`);
    const newest = await readPage(options, `limit=${options.lines}`);
    if (!options.json) process.stdout.write(`${auditHeader(width)}\n`);
    let last = show(newest, printRecord, 0);
    while (options.follow) {
      const page = await readPage(options, `after=${last}&limit=1000`);
      last = show(page, printRecord, last);
      if (page.next === null) await sleep(FOLLOW_MS);
    }
  });
}

/** Returns the command `keyvault audit export`. */
export function auditExportCommand(): Command {
  const command = new Command("export")
    .summary("note the chain's head in a file")
    .description(EXPORT)
    .argument("<file>", "the file to append to");
  return withRemoteOptions(command).action(async (file: string, options: RemoteOptions) => {
    const { head } = await readPage(options, "limit=1");
    await appendHead(file, { seq: head.seq, mac: Buffer.from(head.mac, "hex") }, systemClock.now());
    print(options, { head, file }, `${head.seq}:${head.mac}\n`);
  });
}

async function readPage(options: RemoteOptions, query: string): Promise<AuditPage> {
  return (await ask(options, `/v1/audit?${query}`)) as AuditPage;
}

function show({ records }: AuditPage, say: (record: AuditView) => void, before: number): number {
  for (const record of records) say(record);
  return records.at(-1)?.seq ?? before;
}

const parseCount = wholeNumber(1, 1000, "Give a number from 1 to 1000.");

const WIDE = 120;

/** Returns the columns with their widths: 79 characters in total, or 119 if `width` is 120 or more. */
function columnsOf(width: number): readonly (readonly [name: string, width: number])[] {
  return width < WIDE
    ? [
        ["SEQ", 7],
        ["TIME (UTC)", 14],
        ["CALLER", 14],
        ["STATEMENT", 14],
        ["OUTCOME", 16],
        ["KEY", 9],
      ]
    : [
        ["SEQ", 9],
        ["TIME (UTC)", 19],
        ["CALLER", 16],
        ["STATEMENT", 21],
        ["OUTCOME", 17],
        ["KEY", 32],
      ];
}

/** Returns the header line of the records. */
export function auditHeader(width: number): string {
  return row(
    columnsOf(width).map(([name]) => name),
    width,
  );
}

/** Returns a record in at most `width` characters, which must be 80 or more. Shortened values end in `…`. */
export function auditLine(record: AuditView, width: number): string {
  const time = record.recorded_at.slice(0, 19).replace("T", " ");
  return row(
    [
      String(record.seq),
      width < WIDE ? time.slice(5) : time,
      `${record.role}/${record.caller}`,
      record.statement,
      record.outcome,
      record.key_id ?? "",
    ],
    width,
  );
}

function row(cells: readonly string[], width: number): string {
  const columns = columnsOf(width);
  return cells
    .map((cell, index) => {
      const space = columns[index]?.[1] ?? 0;
      const text = cell.length > space ? `${cell.slice(0, space - 1)}…` : cell;
      return index === 0 ? text.padStart(space) : text.padEnd(space);
    })
    .join(" ")
    .trimEnd();
}

import { setTimeout as sleep } from "node:timers/promises";
import { Command, InvalidArgumentError } from "commander";
import { appendHead } from "../../audit/head_file.ts";
import type { AuditPage, AuditView } from "../../audit/list.ts";
import { systemClock } from "../../clock.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "../remote/call.ts";
import { auditHeader, auditLine } from "./table.ts";

const FOLLOW_MS = 1_000;
const NARROWEST = 80;
const DEFAULT_WIDTH = 120;

const TAIL = `Show the newest audit records of a running vault, oldest first. Needs an admin's or auditor's certificate.

Exit code: 0, or 1 when the vault does not answer.`;

const EXPORT = `Append the audit chain's head, as a running vault has it, to a file: one line, "<time> <number>:<code>".

Kept where nobody who can change the database can write, the file finds out a chain whose newest records were cut off: "keyvault audit verify --heads <file>". A vault with KEYVAULT_AUDIT_HEADS_FILE does so by itself every minute.`;

type TailOptions = RemoteOptions & { lines: number; follow?: true };

/** `keyvault audit tail` */
export function auditTailCommand(): Command {
  const command = new Command("tail")
    .summary("show the newest records")
    .description(TAIL)
    .option("-n, --lines <count>", "how many records, 1 to 1000", parseCount, 20)
    .option("-f, --follow", "print new records as they are written, until stopped");
  return withRemoteOptions(command).action(async (options: TailOptions) => {
    const width = Math.max(process.stdout.columns ?? DEFAULT_WIDTH, NARROWEST);
    const say = options.json
      ? (record: AuditView) => process.stdout.write(`${JSON.stringify(record)}\n`)
      : (record: AuditView) => process.stdout.write(`${auditLine(record, width)}\n`);
    const newest = await readPage(options, `limit=${options.lines}`);
    if (!options.json) process.stdout.write(`${auditHeader(width)}\n`);
    let last = show(newest, say, 0);
    while (options.follow) {
      const page = await readPage(options, `after=${last}&limit=1000`);
      last = show(page, say, last);
      if (page.next === null) await sleep(FOLLOW_MS);
    }
  });
}

/** `keyvault audit export` */
export function auditExportCommand(): Command {
  const command = new Command("export")
    .summary("note the chain's head in a file")
    .description(EXPORT)
    .argument("<file>", "the file to append to");
  return withRemoteOptions(command).action(async (file: string, options: RemoteOptions) => {
    const { head } = await readPage(options, "limit=1");
    await appendHead(file, { seq: head.seq, mac: Buffer.from(head.mac, "hex") }, systemClock.now());
    process.stdout.write(options.json ? `${JSON.stringify({ head, file })}\n` : `${head.seq}:${head.mac}\n`);
  });
}

async function readPage(options: RemoteOptions, query: string): Promise<AuditPage> {
  return (await ask(options, `/v1/audit?${query}`)) as AuditPage;
}

function show({ records }: AuditPage, say: (record: AuditView) => void, before: number): number {
  for (const record of records) say(record);
  return records.at(-1)?.seq ?? before;
}

function parseCount(text: string): number {
  const count = Number(text);
  if (!Number.isInteger(count) || count < 1 || count > 1000) {
    throw new InvalidArgumentError("Give a number from 1 to 1000.");
  }
  return count;
}

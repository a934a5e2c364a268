import { type FileHandle, open, readFile } from "node:fs/promises";
import type { Clock } from "../clock.ts";
import { UserError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Journal } from "./journal.ts";
import type { Head } from "./ledger.ts";

const LINE = /^\S+ (\d{1,15}):([0-9a-f]{64})$/;
const UNFINISHED = " # unfinished";
const TAIL_BYTES = 4_096;
const EVERY_MS = 60_000;

/**
 * Appends `<time> <number>:<code>` on a line of its own to a file of heads and waits until it is on disk. A
 * last line that was cut off in the middle of its writing is ended by ` # unfinished` first. Rejects with the
 * file system's error.
 */
export async function appendHead(file: string, { seq, mac }: Head, now: Date): Promise<void> {
  const handle = await open(file, "a+", 0o600);
  try {
    const end = endOf(await readTail(handle));
    await handle.appendFile(`${end}${now.toISOString()} ${seq}:${mac.toString("hex")}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * What a file of heads has: the heads in its order, and the numbers of lines that were cut off in the middle
 * of their writing.
 */
export type NotedHeads = { heads: Head[]; unfinished: number[] };

/**
 * The heads of a file. Throws a `UserError` that names the first line that is not a head, unless that line is
 * only unfinished.
 */
export async function readHeads(file: string): Promise<NotedHeads> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw new UserError(`${file} cannot be read`, { cause: error });
  });
  const noted: NotedHeads = { heads: [], unfinished: [] };
  const lines = text.split("\n");
  for (const [index, line] of lines.entries()) {
    if (line === "") continue;
    const head = headOf(line);
    if (head !== undefined) {
      noted.heads.push(head);
    } else if (index === lines.length - 1 || line.endsWith(UNFINISHED)) {
      noted.unfinished.push(index + 1);
    } else {
      throw new UserError(`${file}: line ${index + 1} is not a head`);
    }
  }
  return noted;
}

function headOf(line: string): Head | undefined {
  const [, seq, mac] = LINE.exec(line) ?? [];
  return seq === undefined || mac === undefined
    ? undefined
    : { seq: Number(seq), mac: Buffer.from(mac, "hex") };
}

/** The end of a file, enough of it to have the last line whole if that is a head. */
async function readTail(handle: FileHandle): Promise<string> {
  const { size } = await handle.stat();
  const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES));
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, size - buffer.length);
  return buffer.toString("utf8", 0, bytesRead);
}

/** What ends the last line, if it has no end. */
function endOf(tail: string): string {
  const last = tail.slice(tail.lastIndexOf("\n") + 1);
  if (last === "") return "";
  return headOf(last) === undefined ? `${UNFINISHED}\n` : "\n";
}

/** Writes heads as long as the vault runs. */
export type HeadKeeping = { stop(): Promise<void> };

/** What keeping heads needs; `file` undefined leaves the log line only. */
export type HeadKeepingParts = {
  journal: Pick<Journal, "head">;
  clock: Clock;
  log: Logger;
  file: string | undefined;
};

/**
 * Notes the chain's head in the log and in the file: every minute in which it moved, and at the stop. Against
 * these a chain whose newest records were cut off is found out, so the file belongs where the database's
 * owner cannot write.
 */
export function keepHeads({ journal, clock, log, file }: HeadKeepingParts, everyMs = EVERY_MS): HeadKeeping {
  let noted = -1;
  let running: Promise<void> = Promise.resolve();

  async function note(): Promise<void> {
    const head = journal.head();
    if (head.seq === noted) return;
    noted = head.seq;
    log.info({ event: "audit_head", seq: head.seq, mac: head.mac.toString("hex") });
    if (file === undefined) return;
    await appendHead(file, head, clock.now()).catch((error: Error) => {
      noted = -1;
      log.error({ event: "audit_head_not_exported", reason: error.message });
    });
  }

  const timer = setInterval(() => {
    running = running.then(note);
  }, everyMs).unref();
  return {
    async stop() {
      clearInterval(timer);
      await running;
      await note();
    },
  };
}

import { type FileHandle, open, readFile } from "node:fs/promises";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import { UserError } from "../errors.ts";
import { type Logger, PART } from "../log.ts";
import type { Token } from "../token/client.ts";
import type { Journal } from "./journal.ts";
import type { Head } from "./writer_connection.ts";

const LINE = /^\S+ (\d{1,15}):([0-9a-f]{64})$/;
const UNFINISHED = " # unfinished";
const TAIL_BYTES = 4_096;
const FILE_EVERY_MS = 60_000;

const logLine = z.object({ part: z.literal(PART), event: z.string() });
const headLine = z.object({
  event: z.literal("audit_head"),
  seq: z.int().nonnegative(),
  mac: z.hex().length(64),
});

/**
 * Appends the line `<time> <number>:<code>` to a head file and waits until it is on disk. If an interrupted
 * write left the last line incomplete, first marks that line with ` # unfinished`. Rejects with the file
 * system's error.
 */
export async function appendHead(file: string, { seq, mac }: Head, now: Date): Promise<void> {
  const handle = await open(file, "a+", 0o600);
  try {
    const end = missingEndOf(await readTail(handle));
    await handle.appendFile(`${end}${now.toISOString()} ${seq}:${mac.toString("hex")}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Contents of a head file: the heads in file order, and the line numbers of incomplete lines. */
export type NotedHeads = { heads: Head[]; unfinished: number[] };

/**
 * Reads the heads from a file of {@link appendHead} or from a copy of the vault's log. Skips other log
 * events, and any prefix of a log line, such as that of `kubectl logs`. Throws a `UserError` that names the
 * first line of any other form. An incomplete line is not an error.
 */
export async function readHeads(file: string): Promise<NotedHeads> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw new UserError(`${file} cannot be read`, { cause: error });
  });
  const noted: NotedHeads = { heads: [], unfinished: [] };
  const lines = text.split("\n");
  for (const [index, line] of lines.entries()) {
    if (line === "") continue;
    const head = headOf(line) ?? loggedHeadOf(line);
    if (head === "another event") continue;
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

/**
 * Returns the head in a line of the vault's log, `another event` for a line of the log without a head, or
 * `undefined` if the line is damaged or not from the vault.
 */
function loggedHeadOf(line: string): Head | "another event" | undefined {
  const event = logLine.and(z.looseObject({})).safeParse(parseLog(line));
  if (!event.success) return undefined;
  if (event.data.event !== "audit_head") return "another event";
  const { data: head } = headLine.safeParse(event.data);
  return head && { seq: head.seq, mac: Buffer.from(head.mac, "hex") };
}

function parseLog(line: string): unknown {
  try {
    return JSON.parse(line.slice(line.indexOf("{")));
  } catch {
    return undefined;
  }
}

/** Reads enough of a file's end to contain the whole last line, if that line is a head. */
async function readTail(handle: FileHandle): Promise<string> {
  const { size } = await handle.stat();
  const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES));
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, size - buffer.length);
  return buffer.toString("utf8", 0, bytesRead);
}

/**
 * Returns what to append so that the file ends with a complete line: nothing, a line break, or, after an
 * incomplete line, ` # unfinished` and a line break.
 */
function missingEndOf(tail: string): string {
  const last = tail.slice(tail.lastIndexOf("\n") + 1);
  if (last === "") return "";
  return headOf(last) === undefined ? `${UNFINISHED}\n` : "\n";
}

/** The running task that writes heads. */
export type HeadKeeping = { stop(): Promise<void> };

/** Dependencies of {@link keepHeads}. If `file` is undefined, heads go to the log only. */
export type HeadKeepingParts = {
  journal: Pick<Journal, "head">;
  token: Pick<Token, "whenSealed">;
  clock: Clock;
  log: Logger;
  file: string | undefined;
  /** How often the head is written to the log, even if it has not changed. */
  logEveryMs: number;
};

/**
 * Writes the chain's head to the log: at startup, at a fixed interval, at each sealing and at shutdown. If
 * `file` is given, also writes the head to this file: every minute if the head changed, and at shutdown. The
 * heads reveal that the newest records of a chain were cut off. So a collector must copy the log, or the file
 * must be in a place that the database's owner cannot write to. Missing heads are a sign of trouble too.
 */
export function keepHeads(
  { journal, token, clock, log, file, logEveryMs }: HeadKeepingParts,
  fileEveryMs = FILE_EVERY_MS,
): HeadKeeping {
  let noted = -1;
  let running: Promise<void> = Promise.resolve();

  function logHead(why: "start" | "steady" | "sealed" | "stop"): void {
    const { seq, mac } = journal.head();
    log.info({ event: "audit_head", seq, mac: mac.toString("hex"), why });
  }

  async function appendNewHead(): Promise<void> {
    const head = journal.head();
    if (file === undefined || head.seq === noted) return;
    noted = head.seq;
    await appendHead(file, head, clock.now()).catch((error: Error) => {
      noted = -1;
      log.error({ event: "audit_head_not_exported", reason: error.message });
    });
  }

  logHead("start");
  token.whenSealed(() => logHead("sealed"));
  const logTimer = setInterval(() => logHead("steady"), logEveryMs).unref();
  const fileTimer = setInterval(() => {
    running = running.then(appendNewHead);
  }, fileEveryMs).unref();
  return {
    async stop() {
      clearInterval(logTimer);
      clearInterval(fileTimer);
      await running;
      logHead("stop");
      await appendNewHead();
    },
  };
}

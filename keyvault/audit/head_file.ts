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
 * Appends `<time> <number>:<code>` as a new line to a head file and waits until it is on disk. If an
 * interrupted write left the last line incomplete, first completes that line with ` # unfinished`. Rejects
 * with the file system's error.
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
 * Reads the heads from a file. Each line was written by {@link appendHead} or is a line of the vault's log.
 * Skips other log events. A log line may have a prefix, as log collectors and `kubectl logs` add one. Throws
 * a `UserError` that names the first line that is neither, unless that line is only incomplete.
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
 * Returns the head in a line of the vault's log, or `undefined` if the line is damaged or is not of the
 * vault's log.
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

/** Reads the end of a file, far enough back to contain the whole last line if that line is a head. */
async function readTail(handle: FileHandle): Promise<string> {
  const { size } = await handle.stat();
  const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES));
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, size - buffer.length);
  return buffer.toString("utf8", 0, bytesRead);
}

/**
 * Returns the text that completes the file's last line. This is a newline if the line lacks one, preceded by
 * ` # unfinished` if the line is incomplete.
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
  /** How often the log gets the head, whether or not it changed. */
  logEveryMs: number;
};

/**
 * Writes the chain's head to the log: at startup, at a fixed interval, at each sealing and at shutdown. If a
 * file is configured, also writes the head there: every minute if the head changed, and at shutdown.
 *
 * An attacker who takes over the vault cannot reach log lines that a collector has already copied. Missing
 * lines are a sign of trouble too. These heads reveal that the newest records of a chain were cut off. The
 * file must therefore be in a place that the database's owner cannot write to.
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

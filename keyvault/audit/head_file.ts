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
 * The heads of a file: lines of `appendHead`, or lines of the vault's log, of which those of other events are
 * left out. A collector or `kubectl logs` may have put something before a log line. Throws a `UserError` that
 * names the first line that is neither, unless that line is only unfinished.
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

/** The head that a line of the vault's log has; undefined when the line is damaged, or of something else. */
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

/** What keeping heads needs; `file` undefined leaves the log lines only. */
export type HeadKeepingParts = {
  journal: Pick<Journal, "head">;
  token: Pick<Token, "whenSealed">;
  clock: Clock;
  log: Logger;
  file: string | undefined;
  /** How often the log gets the head, moved or not. */
  logEveryMs: number;
};

/**
 * Writes the chain's head into the log: when this begins, steadily, at each sealing and at the stop. What the
 * machine's log collector took is out of the reach of whoever takes over the vault, and that no line arrives
 * is a sign too. The file gets the head every minute in which it moved, and at the stop. Against these a
 * chain whose newest records were cut off is found out, so the file belongs where the database's owner cannot
 * write.
 */
export function keepHeads(
  { journal, token, clock, log, file, logEveryMs }: HeadKeepingParts,
  fileEveryMs = FILE_EVERY_MS,
): HeadKeeping {
  let noted = -1;
  let running: Promise<void> = Promise.resolve();

  function tell(why: "start" | "steady" | "sealed" | "stop"): void {
    const { seq, mac } = journal.head();
    log.info({ event: "audit_head", seq, mac: mac.toString("hex"), why });
  }

  async function note(): Promise<void> {
    const head = journal.head();
    if (file === undefined || head.seq === noted) return;
    noted = head.seq;
    await appendHead(file, head, clock.now()).catch((error: Error) => {
      noted = -1;
      log.error({ event: "audit_head_not_exported", reason: error.message });
    });
  }

  tell("start");
  token.whenSealed(() => tell("sealed"));
  const telling = setInterval(() => tell("steady"), logEveryMs).unref();
  const noting = setInterval(() => {
    running = running.then(note);
  }, fileEveryMs).unref();
  return {
    async stop() {
      clearInterval(telling);
      clearInterval(noting);
      await running;
      tell("stop");
      await note();
    },
  };
}

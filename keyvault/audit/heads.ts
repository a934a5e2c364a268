import { appendFile, readFile } from "node:fs/promises";
import type { Clock } from "../clock.ts";
import type { Logger } from "../log.ts";
import { Problem } from "../problem.ts";
import type { Journal } from "./journal.ts";
import type { Head } from "./ledger.ts";

const LINE = /^\S+ (\d{1,15}):([0-9a-f]{64})$/;
const EVERY_MS = 60_000;

/** Appends `<time> <number>:<code>` to a file of heads and waits until it is on disk. Rejects with the file system's error. */
export async function appendHead(file: string, { seq, mac }: Head, now: Date): Promise<void> {
  const line = `${now.toISOString()} ${seq}:${mac.toString("hex")}\n`;
  await appendFile(file, line, { mode: 0o600, flush: true });
}

/** The heads of a file, in its order. Throws a `Problem` that names the first line which is none. */
export async function readHeads(file: string): Promise<Head[]> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw new Problem(`${file} cannot be read`, { cause: error });
  });
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line, index) => {
    const [, seq, mac] = LINE.exec(line) ?? [];
    if (seq === undefined || mac === undefined) throw new Problem(`${file}: line ${index + 1} is no head`);
    return { seq: Number(seq), mac: Buffer.from(mac, "hex") };
  });
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
 * Notes the chain's head in the log and in the file: every minute in which it moved, and at the stop. Against these a chain whose newest
 * records were cut off is found out, so the file belongs where the database's owner cannot write.
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

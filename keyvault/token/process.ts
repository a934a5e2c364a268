import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { NODE_OPTIONS } from "../hardening.ts";
import type { Logger } from "../log.ts";
import { createFrameReader, encodeFrame } from "./frames.ts";
import type { ReplyFrame, RequestFrame } from "./messages.ts";

const PROGRAM = fileURLToPath(new URL("./child/main.ts", import.meta.url));
const PIPE = 3;

/** A running token child, seen from the parent. */
export type TokenProcess = {
  pid: number | undefined;
  send(frame: RequestFrame): void;
  /** Ends the child immediately. Safe at any moment: it holds no state but the module's. */
  kill(): void;
};

/** What happens to a token child. `ended` is called once, after the last reply. */
export type TokenProcessEvents = { reply(frame: ReplyFrame): void; ended(): void };

/**
 * Starts the program that loads PKCS#11. It gets no arguments, and of the environment only what `environment`
 * says; it has a session of its own, so a Ctrl-C meant for the vault does not end it before the vault has
 * finished, and it ends when its pipe does.
 */
export function startTokenProcess(
  environment: Readonly<Record<string, string>>,
  events: TokenProcessEvents,
  log: Logger,
): TokenProcess {
  const child = spawn(process.execPath, [...NODE_OPTIONS, PROGRAM], {
    env: { ...environment },
    detached: true,
    stdio: ["ignore", "ignore", "pipe", "pipe"],
  });
  const pipe = child.stdio[PIPE] as Duplex;
  const frames = createFrameReader();
  pipe.on("data", (chunk: Buffer) => {
    try {
      for (const frame of frames.push(chunk)) events.reply(frame as ReplyFrame);
    } catch (error) {
      log.error({ event: "token_pipe_broken", err: error });
      child.kill("SIGKILL");
    }
    chunk.fill(0);
  });
  pipe.on("error", () => child.kill("SIGKILL"));
  child.stderr?.on("data", (text: Buffer) =>
    log.warn({ event: "token_stderr", text: text.toString("utf8").trim() }),
  );
  onceEnded(child, events.ended);
  return {
    pid: child.pid,
    send(frame) {
      const bytes = encodeFrame(frame);
      pipe.write(bytes, () => bytes.fill(0));
    },
    kill: () => void child.kill("SIGKILL"),
  };
}

function onceEnded(child: ChildProcess, ended: () => void): void {
  let told = false;
  const tell = (): void => {
    if (told) return;
    told = true;
    ended();
  };
  child.on("close", tell);
  child.on("error", tell);
}

import { spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { NODE_OPTIONS } from "../hardening.ts";
import type { Logger } from "../log.ts";
import { createFrameReader, encodeFrame } from "./frames.ts";
import {
  DamagedBox,
  type ReplyFrame,
  type RequestFrame,
  StaleOffer,
  type TokenAnswers,
  TokenError,
  type TokenRefusal,
  type TokenRequest,
  WrongPin,
} from "./messages.ts";

/** One life of the child that owns the token. */
export type TokenLink = {
  pid: number | undefined;
  /**
   * Asks the child. Rejects with `DamagedBox`, `WrongPin` or `StaleOffer` as the operation says, and with
   * `TokenError` when the child reports a fault, ends, or lets the deadline pass: it is then killed, so that
   * no late answer can be taken for another call's. What cannot be sent, because it is too large, rejects
   * immediately and leaves the child as it is.
   */
  request<K extends TokenRequest["kind"]>(
    message: Extract<TokenRequest, { kind: K }>,
    deadlineMs: number,
  ): Promise<TokenAnswers[K]>;
  /** Ends the child immediately. */
  kill(): void;
  /** Resolves when the child has ended and every call in flight was rejected. */
  ended: Promise<void>;
};

type Waiting = { resolve(answer: unknown): void; reject(error: Error): void; deadline: NodeJS.Timeout };

const PROGRAM = fileURLToPath(new URL("./child/main.ts", import.meta.url));
const PIPE = 3;

/**
 * Starts the program that loads PKCS#11. It gets no arguments, and of the environment only what `environment`
 * says; it has a session of its own, so a Ctrl-C meant for the vault does not end it before the vault has
 * finished, and it ends when its pipe does. It may be killed at any moment: it holds no state but the
 * module's.
 */
export function openTokenLink(environment: Readonly<Record<string, string>>, log: Logger): TokenLink {
  const waiting = new Map<number, Waiting>();
  const { promise: ended, resolve: tellEnded } = Promise.withResolvers<void>();
  let alive = true;
  let lastId = 0;
  const child = spawn(process.execPath, [...NODE_OPTIONS, PROGRAM], {
    env: { ...environment },
    detached: true,
    stdio: ["ignore", "ignore", "pipe", "pipe"],
  });
  const pipe = child.stdio[PIPE] as Duplex;
  const frames = createFrameReader();
  const kill = (): void => void child.kill("SIGKILL");

  function answer(frame: ReplyFrame): void {
    const call = waiting.get(frame.id);
    if (call === undefined) return;
    waiting.delete(frame.id);
    clearTimeout(call.deadline);
    if ("answer" in frame) {
      call.resolve(frame.answer);
    } else {
      call.reject(failed(frame.failure));
    }
  }

  function end(): void {
    alive = false;
    for (const call of waiting.values()) {
      clearTimeout(call.deadline);
      call.reject(new TokenError("The token's process ended"));
    }
    waiting.clear();
    tellEnded();
  }

  pipe.on("data", (chunk: Buffer) => {
    try {
      for (const frame of frames.push(chunk)) answer(frame as ReplyFrame);
    } catch (error) {
      log.error({ event: "token_pipe_broken", err: error });
      kill();
    }
    chunk.fill(0);
  });
  pipe.on("error", kill);
  child.stderr?.on("data", (text: Buffer) =>
    log.warn({ event: "token_stderr", text: text.toString("utf8").trim() }),
  );
  child.on("close", end).on("error", end);

  return {
    pid: child.pid,
    ended,
    kill,
    request(message, deadlineMs) {
      if (!alive) return Promise.reject(new TokenError("The token's process is not running"));
      const id = ++lastId;
      return new Promise((resolve, reject) => {
        const bytes = encodeFrame({ id, request: message } satisfies RequestFrame);
        pipe.write(bytes, () => bytes.fill(0));
        const deadline = setTimeout(() => {
          log.error({ event: "token_deadline", kind: message.kind });
          kill();
        }, deadlineMs);
        waiting.set(id, { resolve: resolve as (answer: unknown) => void, reject, deadline });
      });
    },
  };
}

function failed({ reason, message }: TokenRefusal): Error {
  switch (reason) {
    case "damaged":
      return new DamagedBox();
    case "pin":
      return new WrongPin(message);
    case "offer":
      return new StaleOffer();
    case "token":
      return new TokenError(message);
  }
}

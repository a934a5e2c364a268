import { spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { NODE_OPTIONS } from "../hardening.ts";
import type { Logger } from "../log.ts";
import { createFrameReader, encodeFrame } from "./frames.ts";
import {
  DamagedBox,
  PinWithheld,
  type ReplyFrame,
  type RequestFrame,
  StaleOffer,
  type TokenAnswers,
  TokenError,
  type TokenRefusal,
  type TokenRequest,
  WrongPin,
} from "./messages.ts";

/** A running child that owns the token. */
export type TokenLink = {
  pid: number | undefined;
  /**
   * Sends a request to the child. Rejects with `DamagedBox`, `WrongPin`, `PinWithheld` or `StaleOffer`
   * according to the operation. Rejects with `TokenError` if the child reports a fault, exits, or misses the
   * deadline. The child is then killed, so that a late answer is never mistaken for the answer to another
   * call. A request that is too large rejects immediately and does not affect the child.
   */
  request<K extends TokenRequest["kind"]>(
    message: Extract<TokenRequest, { kind: K }>,
    deadlineMs: number,
  ): Promise<TokenAnswers[K]>;
  kill(): void;
  /** Resolves when the child has exited and every running call was rejected. */
  ended: Promise<void>;
};

type Waiting = { resolve(answer: unknown): void; reject(error: Error): void; deadline: NodeJS.Timeout };

const PROGRAM = fileURLToPath(new URL("./child/main.ts", import.meta.url));
const PIPE = 3;

/**
 * Starts the program that loads PKCS#11. It receives no arguments and only the variables in `environment`. It
 * runs in its own session, so that Ctrl-C for the vault does not stop it before the vault has finished. It
 * exits when its pipe closes. It may be killed at any time, because it has no state except the module's.
 */
export function openTokenLink(environment: Readonly<Record<string, string>>, log: Logger): TokenLink {
  const waiting = new Map<number, Waiting>();
  const { promise: ended, resolve: resolveEnded } = Promise.withResolvers<void>();
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
    resolveEnded();
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

function failed(refusal: TokenRefusal): Error {
  const { reason, message } = refusal;
  switch (reason) {
    case "damaged":
      return new DamagedBox();
    case "pin":
      return new WrongPin(message, refusal.pin);
    case "withheld":
      return new PinWithheld(message, { hold: refusal.hold, tried: refusal.tried, pin: refusal.pin });
    case "offer":
      return new StaleOffer();
    case "token":
      return new TokenError(message);
  }
}

import type { Logger } from "../log.ts";
import type { ReplyFrame, TokenAnswers, TokenRefusal, TokenRequest } from "./messages.ts";
import { startTokenProcess } from "./process.ts";
import { DamagedBox, StaleOffer, TokenError, WrongPin } from "./token_error.ts";

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

/** Starts a child with this environment and nothing else. */
export function openTokenLink(environment: Readonly<Record<string, string>>, log: Logger): TokenLink {
  const waiting = new Map<number, Waiting>();
  const { promise: ended, resolve: tellEnded } = Promise.withResolvers<void>();
  let alive = true;
  let lastId = 0;

  const child = startTokenProcess(environment, { reply: answer, ended: end }, log);

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

  return {
    pid: child.pid,
    ended,
    kill: child.kill,
    request(message, deadlineMs) {
      if (!alive) return Promise.reject(new TokenError("The token's process is not running"));
      const id = ++lastId;
      return new Promise((resolve, reject) => {
        child.send({ id, request: message });
        const deadline = setTimeout(() => {
          log.error({ event: "token_deadline", kind: message.kind });
          child.kill();
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

import type { IncomingMessage } from "node:http";
import { createKeyCounts } from "../../concurrency/key_counts.ts";

/** How many bytes of a body are read after its response: 256 times the size limit of a body. */
const DISCARDED_BYTES = 67_108_864;
/** Milliseconds within which the rest of a request must arrive. A whole request has the same limit. */
const WHOLE_MS = 30_000;
/** Milliseconds for which the sender may pause while the rest is read. */
const PAUSE_MS = 5_000;
/** How many bodies are discarded at the same time: in total, and for each client. */
const MAX_CONCURRENT = 64;
const MAX_CONCURRENT_PER_CLIENT = 16;

/** Discards the rest of requests that received a response before they were read. */
export type UnreadBodies = {
  /**
   * Reads the rest of a request and discards it. Closing a connection with unread bytes resets the
   * connection, so a client that sends its whole request first would lose the response.
   *
   * Aborts a request that sends more than 64 MiB, takes more than 30 s, or pauses for 5 s. Resolves when the
   * request has ended. Returns `undefined` if 64 other requests, or 16 of the same client, are being
   * discarded. The caller then closes the connection.
   */
  discard(request: IncomingMessage, client: string): Promise<void> | undefined;
};

/** Creates one `UnreadBodies`. Its limits apply to all its requests together. */
export function createUnreadBodies(): UnreadBodies {
  const clients = createKeyCounts();
  let all = 0;
  return {
    discard(request, client) {
      if (request.complete || request.destroyed) return Promise.resolve();
      if (all >= MAX_CONCURRENT || !clients.enter(client, MAX_CONCURRENT_PER_CLIENT)) return undefined;
      all += 1;
      return readToEnd(request).finally(() => {
        all -= 1;
        clients.leave(client);
      });
    },
  };
}

function readToEnd(request: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    let rest = DISCARDED_BYTES;
    const cutOff = () => request.destroy();
    const whole = setTimeout(cutOff, WHOLE_MS);
    const pause = setTimeout(cutOff, PAUSE_MS);
    request.on("data", (chunk: Buffer) => {
      rest -= chunk.length;
      if (rest < 0) {
        cutOff();
      } else {
        pause.refresh();
      }
    });
    const over = () => {
      clearTimeout(whole);
      clearTimeout(pause);
      resolve();
    };
    request.once("end", over).once("close", over).on("error", over);
    request.resume();
  });
}

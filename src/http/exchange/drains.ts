import type { IncomingMessage } from "node:http";
import { createKeyCounts } from "../../concurrency/key_counts.ts";

/** Bytes that are taken in of a body after its call was answered: 256 times what a body may have. */
const DRAIN_BYTES = 67_108_864;
/** Milliseconds that this may take in all: as long as a request may take to arrive. */
const DRAIN_MS = 30_000;
/** Milliseconds that a sender may pause meanwhile. */
const DRAIN_PAUSE_MS = 5_000;
/** Bodies that are taken in at a time, and of them those of one client. */
const AT_ONCE = 64;
const AT_ONCE_PER_CLIENT = 16;

/** Takes in what is left of requests that were answered before they were read. */
export type Drains = {
  /**
   * Reads the rest of a request and discards it: many clients read no answer before they have sent all, and a
   * connection that is closed on unread bytes is reset, answer included. One that goes on for more than 64
   * MiB or 30 s, or pauses for 5 s, is cut off. Resolves when the request is over either way. `undefined`
   * when 64 others, or 16 of the same client, are being taken in: then the connection is to be closed.
   */
  begin(request: IncomingMessage, client: string): Promise<void> | undefined;
};

/** Drains that are bounded together. */
export function createDrains(): Drains {
  const clients = createKeyCounts();
  let all = 0;
  return {
    begin(request, client) {
      if (request.complete || request.destroyed) return Promise.resolve();
      if (all >= AT_ONCE || !clients.enter(client, AT_ONCE_PER_CLIENT)) return undefined;
      all += 1;
      return drain(request).finally(() => {
        all -= 1;
        clients.leave(client);
      });
    },
  };
}

function drain(request: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    let rest = DRAIN_BYTES;
    const cutOff = () => request.destroy();
    const whole = setTimeout(cutOff, DRAIN_MS);
    const pause = setTimeout(cutOff, DRAIN_PAUSE_MS);
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

import type { IncomingMessage } from "node:http";
import { inTime } from "../../clock.ts";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
import { ApiError } from "../../errors.ts";
import { hasBody, readBody } from "../request/body.ts";

/** Milliseconds in which a body that was begun has to be there. */
export const BODY_MS = 10_000;

/** Bounds the bodies that are on their way. */
export type Arrivals = {
  /**
   * Gives what `read` reads from a client. Throws `rate_limited` when as many of the client's bodies as it
   * may have are on their way already, and `invalid_request` when this one is not there in time.
   */
  wait<T>(client: string, read: () => Promise<T>): Promise<T>;
};

/** At most `perClient` bodies for each client, each with `bodyMs` milliseconds. */
export function createArrivals({
  perClient,
  bodyMs = BODY_MS,
}: {
  perClient: number;
  bodyMs?: number;
}): Arrivals {
  const open = createKeyCounts();
  return {
    async wait(client, read) {
      if (!open.enter(client, perClient)) {
        throw new ApiError(
          "rate_limited",
          "Too many request bodies from this address are arriving at the same time",
          {
            "retry-after": "1",
          },
        );
      }
      try {
        return await inTime(
          bodyMs,
          read(),
          () => new ApiError("invalid_request", `body: did not arrive within ${bodyMs / 1000} seconds`),
        );
      } finally {
        open.leave(client);
      }
    },
  };
}

/** The bytes of a request's body, from a client at `ip`. Only a body that is announced is waited for. */
export type ReadArriving = (message: IncomingMessage, ip: () => string) => Promise<Buffer>;

/** Reads bodies, as many at a time as a network may have on their way. */
export function createReadArriving(arrivals: Arrivals, networkOf: (ip: string) => string): ReadArriving {
  return async (message, ip) =>
    hasBody(message) ? arrivals.wait(networkOf(ip()), () => readBody(message)) : readBody(message);
}

import type { Socket } from "node:net";
import { networkOf } from "../../rates/client_rates.ts";

/** Bounds how many connections one network holds open at a time. */
export type ClientSockets = {
  /**
   * Counts a connection until it is closed. False, and not counted, when its network holds its share already.
   */
  admit(socket: Socket): boolean;
};

/** What the count knows clients by. */
export type ClientSocketBounds = {
  perClient: number;
  /** The client of a TCP peer's address; `undefined` for proxies, whose connections are many clients'. */
  clientOf(peer: string | undefined): string | undefined;
};

/** A count of at most `perClient` connections for each network. */
export function createClientSockets({ perClient, clientOf }: ClientSocketBounds): ClientSockets {
  const open = createTally();
  return {
    admit(socket) {
      const client = clientOf(socket.remoteAddress);
      if (client === undefined) return true;
      if (!open.enter(networkOf(client), perClient)) return false;
      socket.once("close", () => open.leave(networkOf(client)));
      return true;
    },
  };
}

/** How many of something there are now for each key. */
export type Tally = {
  /** Counts one more, unless there are `most` already. */
  enter(key: string, most: number): boolean;
  leave(key: string): void;
};

/** An empty tally. A key that has none takes no room. */
export function createTally(): Tally {
  const counts = new Map<string, number>();
  return {
    enter(key, most) {
      const count = counts.get(key) ?? 0;
      if (count >= most) return false;
      counts.set(key, count + 1);
      return true;
    },
    leave(key) {
      const count = (counts.get(key) ?? 0) - 1;
      if (count > 0) {
        counts.set(key, count);
      } else {
        counts.delete(key);
      }
    },
  };
}

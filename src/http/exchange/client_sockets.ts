import type { Socket } from "node:net";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
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
  const open = createKeyCounts();
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

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
import { networkOf } from "../../rates/client_rates.ts";

type ClientSockets = {
  /** Counts a connection until it closes. Returns false if its network already has the maximum number. */
  admit(socket: Socket): boolean;
};

/** The limit for each network, and how a connection's client is found. */
export type ClientSocketBounds = {
  perClient: number;
  /** Returns `undefined` for a proxy, whose connections carry many clients. */
  clientOf(peer: string | undefined): string | undefined;
};

/** Creates a counter that admits at most `perClient` connections from each network. */
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

type Handling = { serve(): void; refuse(): void };

/** Limits how many requests of one connection may wait for their responses. HTTP/1.1 sets no limit. */
type PendingResponses = {
  /**
   * Serves a connection's requests one after the other. Refuses the first request beyond the limit, ignores
   * the requests that arrived together with it, and reads nothing more.
   */
  take(request: IncomingMessage, response: ServerResponse, handling: Handling): void;
  /** Returns the unfinished responses of one connection, or of all connections. */
  open(socket?: Socket): ServerResponse[];
  /** Closes the connections that have sent requests and wait for no response. */
  closeIdle(): void;
};

type Connection = {
  open: ServerResponse[];
  /** Functions that each serve one waiting request. The first function has already been called. */
  queue: (() => void)[];
  isEnded: boolean;
};

/**
 * Admits at most `most` pending requests on each connection. Keeps a list for each connection, because V8
 * keeps the old members of a set in memory until a full garbage collection (decision 62).
 */
export function createPendingResponses(most: number): PendingResponses {
  const connections = new Map<Socket, Connection>();

  function connectionOf(socket: Socket): Connection {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const connection: Connection = { open: [], queue: [], isEnded: false };
    connections.set(socket, connection);
    socket.once("close", () => connections.delete(socket));
    return connection;
  }

  return {
    take({ socket }, response, { serve, refuse }) {
      const connection = connectionOf(socket);
      const { open, queue } = connection;
      open.push(response);
      response.once("close", () => open.splice(open.indexOf(response), 1));
      if (connection.isEnded) return;
      if (queue.length >= most) {
        connection.isEnded = true;
        socket.pause();
        // Pause the socket again whenever reading a request body resumes it.
        socket.on("resume", () => socket.pause());
        refuse();
        return;
      }
      queue.push(serve);
      response.once("close", () => {
        queue.shift();
        if (!socket.destroyed) queue[0]?.();
      });
      if (queue.length === 1) serve();
    },
    open(socket) {
      const selected = socket === undefined ? connections.values() : [connections.get(socket)];
      return [...selected].flatMap((connection) => connection?.open ?? []);
    },
    closeIdle() {
      for (const [socket, connection] of connections) if (connection.open.length === 0) socket.destroy();
    },
  };
}

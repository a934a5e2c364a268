import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
import { networkOf } from "../../rates/client_rates.ts";

/** Bounds how many connections one network holds open at a time. */
type ClientSockets = {
  /**
   * Counts a connection until it is closed. Returns false, without counting, when its network has its share.
   */
  admit(socket: Socket): boolean;
};

/** How connections are counted. */
export type ClientSocketBounds = {
  perClient: number;
  /** The client of a TCP peer's address. `undefined` for a proxy, whose connections carry many clients. */
  clientOf(peer: string | undefined): string | undefined;
};

/** Admits `perClient` connections of each network. */
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

/** The two ways a request goes on: it is served, or it is refused and its connection ends. */
type Ways = { serve(): void; refuse(): void };

/** Bounds the requests of one connection that wait for their responses. HTTP/1.1 sets no bound. */
type PendingResponses = {
  /**
   * Serves a connection's requests one after the other. Refuses the first one beyond the connection's share,
   * drops those that were read together with it, and reads nothing more.
   */
  take(request: IncomingMessage, response: ServerResponse, ways: Ways): void;
  /** The responses that have not ended, of one connection or of all. */
  open(socket?: Socket): ServerResponse[];
};

type Connection = {
  open: ServerResponse[];
  /** Starts each request that is to be served. The first one has started. */
  line: (() => void)[];
  isEnded: boolean;
};

/**
 * Admits `most` pending requests on each connection.
 *
 * Responses are held by connection and not in one set: the engine rebuilds a set whose members come and go,
 * and the members of the former one stay until the heap is collected as a whole (decision 62).
 */
export function createPendingResponses(most: number): PendingResponses {
  const connections = new Map<Socket, Connection>();

  function connectionOf(socket: Socket): Connection {
    const known = connections.get(socket);
    if (known !== undefined) return known;
    const connection: Connection = { open: [], line: [], isEnded: false };
    connections.set(socket, connection);
    socket.once("close", () => connections.delete(socket));
    return connection;
  }

  return {
    take({ socket }, response, { serve, refuse }) {
      const connection = connectionOf(socket);
      const { open, line } = connection;
      open.push(response);
      response.once("close", () => open.splice(open.indexOf(response), 1));
      if (connection.isEnded) return;
      if (line.length >= most) {
        connection.isEnded = true;
        socket.pause();
        // A body that is still read resumes its connection.
        socket.on("resume", () => socket.pause());
        refuse();
        return;
      }
      line.push(serve);
      response.once("close", () => {
        line.shift();
        if (!socket.destroyed) line[0]?.();
      });
      if (line.length === 1) serve();
    },
    open(socket) {
      const asked = socket === undefined ? connections.values() : [connections.get(socket)];
      return [...asked].flatMap((connection) => connection?.open ?? []);
    },
  };
}

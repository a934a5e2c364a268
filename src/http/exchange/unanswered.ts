import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** What becomes of a request: it is served, or refused with the end of its connection. */
export type Turn = { serve(): void; refuse(): void };

/**
 * Bounds the requests of one connection that have no answer yet: HTTP/1.1 lets a client send them without
 * end.
 */
export type Unanswered = {
  /**
   * Serves a connection's requests one after the other. The first one beyond the connection's share is
   * refused, and nothing more is read; those that had been read with it are dropped.
   */
  take(request: IncomingMessage, response: ServerResponse, turn: Turn): void;
  /** The responses that are not over, of one connection or of all. */
  open(socket?: Socket): ServerResponse[];
};

type Connection = {
  open: ServerResponse[];
  /** How each of those that are served is begun; the first one was. */
  line: (() => void)[];
  isEnded: boolean;
};

/**
 * At most `most` requests of a connection without an answer.
 *
 * What is open is held by connection, and not in a set of all: a set that members come to and leave is made
 * anew every few members, and what was in the one before stays until the heap is collected as a whole.
 */
export function createUnanswered(most: number): Unanswered {
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

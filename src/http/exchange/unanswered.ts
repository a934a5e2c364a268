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
};

/** At most `most` requests of a connection without an answer. */
export function createUnanswered(most: number): Unanswered {
  const lines = new WeakMap<Socket, (() => void)[]>();
  const ended = new WeakSet<Socket>();
  return {
    take({ socket }, response, { serve, refuse }) {
      if (ended.has(socket)) return;
      const line = lines.get(socket) ?? [];
      lines.set(socket, line);
      if (line.length >= most) {
        ended.add(socket);
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
  };
}

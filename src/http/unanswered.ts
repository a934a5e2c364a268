import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Bounds the requests of one connection that have no answer yet: HTTP/1.1 lets a client send them without end. */
export type Unanswered = {
  /**
   * `served` while the connection is within its share. The first request beyond is `over`: it is to be answered with the
   * connection's end, and nothing more is read. Those that had been read with it are `ignored`.
   */
  admit(request: IncomingMessage, response: ServerResponse): "served" | "over" | "ignored";
};

/** At most `most` requests of a connection without an answer. */
export function createUnanswered(most: number): Unanswered {
  const counts = new WeakMap<Socket, number>();
  const ended = new WeakSet<Socket>();
  return {
    admit({ socket }, response) {
      if (ended.has(socket)) return "ignored";
      const count = counts.get(socket) ?? 0;
      if (count < most) {
        counts.set(socket, count + 1);
        response.once("close", () => counts.set(socket, (counts.get(socket) ?? 1) - 1));
        return "served";
      }
      ended.add(socket);
      socket.pause();
      // A body that is still read resumes its connection.
      socket.on("resume", () => socket.pause());
      return "over";
    },
  };
}

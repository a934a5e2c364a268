import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** A TCP client that sends given bytes and collects the response. */
export type RawClient = {
  socket: Socket;
  text(): string;
  /** Resolves to the response once it matches. Rejects if the connection closes first. */
  until(pattern: RegExp): Promise<string>;
  /** Resolves to the response when the connection closes, for whatever reason. */
  closed: Promise<string>;
};

/** Connects from one of this machine's loopback addresses. Each address counts as a separate client. */
export async function connectRaw(port: number, { from = "127.0.0.1", send = "" } = {}): Promise<RawClient> {
  const socket = connect({ port, host: "127.0.0.1", localAddress: from });
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString();
  });
  socket.on("error", () => {});
  const closed = new Promise<string>((resolve) => socket.once("close", () => resolve(text)));
  await Promise.race([once(socket, "connect"), closed]);
  if (send !== "") socket.write(send);
  return {
    socket,
    text: () => text,
    closed,
    async until(pattern) {
      while (!pattern.test(text)) {
        if (socket.destroyed) throw new Error(`closed after ${JSON.stringify(text)}`);
        await Promise.race([once(socket, "data"), closed]);
      }
      return text;
    },
  };
}

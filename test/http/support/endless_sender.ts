import { connect, type Socket } from "node:net";
import type { TestApi } from "../../support/api.ts";

/** Starts a chunked body. `write` continues it until the other side closes. Resolves to the response. */
export async function sendEndlessly(
  api: TestApi,
  connection: string,
  write: (socket: Socket) => Promise<unknown>,
): Promise<{ answer: string; sent: number }> {
  const socket = connect(api.port, "127.0.0.1");
  let answer = "";
  socket.on("data", (chunk) => {
    answer += chunk.toString();
  });
  socket.on("error", () => {});
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.write(
    `POST /v1/service/raw HTTP/1.1\r\nHost: x\r\nConnection: ${connection}\r\nTransfer-Encoding: chunked\r\n\r\n`,
  );
  while (!socket.destroyed) await Promise.race([write(socket), closed]);
  return { answer, sent: socket.bytesWritten };
}

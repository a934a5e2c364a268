import { once } from "node:events";
import { type IncomingMessage, request, type ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { selfSigned } from "../../events/support/certificate.ts";

/** The front of a product: it ends TLS for an origin, and passes requests on to a port on loopback. */
export type ProductFront = { origin: string; port: number; close(): void };

/** Starts the front of a product that later listens on `backend`. */
export async function startFront(origin: string, backend: number): Promise<ProductFront> {
  const server = createServer(await selfSigned([new URL(origin).hostname]), (incoming, response) => {
    passOn(incoming, response, backend);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    origin,
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function passOn(incoming: IncomingMessage, response: ServerResponse, port: number): void {
  const { method, url, headers } = incoming;
  // Chromium asks each origin for an icon, and would complain that there is none.
  if (url === "/favicon.ico") return void response.writeHead(204).end();
  const outgoing = request({ host: "127.0.0.1", port, method, path: url, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  outgoing.on("error", () => response.destroy());
  incoming.pipe(outgoing);
}

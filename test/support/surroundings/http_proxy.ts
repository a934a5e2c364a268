import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

/** The way in which a proxy treats `X-Forwarded-For`: it may also append its peer to what it received. */
export type Forwarding = "append" | "replace" | "pass on";

/** A reverse proxy for HTTP on loopback. `connectFrom` is its address towards the server behind it. */
export type HttpProxy = { url: string; stop(): Promise<void> };

export async function startHttpProxy(
  target: string,
  { forwarding = "append", connectFrom }: { forwarding?: Forwarding; connectFrom?: string } = {},
): Promise<HttpProxy> {
  const server = createServer((incoming, reply) => {
    const peer = incoming.socket.remoteAddress ?? "";
    const given = incoming.headers["x-forwarded-for"]?.toString();
    const hops = { append: [given, peer], replace: [peer], "pass on": [given] }[forwarding];
    const header = hops.filter((hop) => hop !== undefined).join(", ");
    const outgoing = request(new URL(incoming.url ?? "/", target), {
      method: incoming.method,
      headers: { ...incoming.headers, ...(header !== "" && { "x-forwarded-for": header }) },
      agent: false,
      ...(connectFrom !== undefined && { localAddress: connectFrom }),
    });
    outgoing.on("response", (response) => {
      reply.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(reply);
    });
    outgoing.on("error", () => reply.writeHead(502).end());
    incoming.pipe(outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop() {
      server.closeAllConnections();
      return new Promise((resolve) => void server.close(() => resolve()));
    },
  };
}

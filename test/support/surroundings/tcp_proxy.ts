import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export type TcpProxy = {
  /** The server's URL, with the proxy's host and port. */
  url: string;
  /** Closes every connection, and closes new connections immediately. */
  cut(): void;
  /** Keeps connections open, but forwards nothing. */
  stall(): void;
  /** Forwards everything again. Earlier connections do not recover. */
  mend(): void;
  /** Sends new connections to another port, as a Kubernetes Service does. Earlier connections remain. */
  switchTo(port: number): void;
  stop(): Promise<void>;
};

export async function startTcpProxy(url: string): Promise<TcpProxy> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let port = Number(target.port);
  let state: "open" | "cut" | "stalled" = "open";
  const server = createServer((near) => {
    if (state === "cut") {
      near.destroy();
      return;
    }
    const far = connect(port, target.hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("data", (chunk) => {
        if (state === "open") to.write(chunk);
      });
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxyUrl = new URL(url);
  proxyUrl.hostname = "127.0.0.1";
  proxyUrl.port = String((server.address() as AddressInfo).port);
  const cut = () => {
    state = "cut";
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: proxyUrl.href,
    cut,
    stall() {
      state = "stalled";
    },
    mend() {
      state = "open";
    },
    switchTo(other) {
      port = other;
    },
    async stop() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export type TcpProxy = {
  /** The server's URL, with the proxy's host and port. */
  url: string;
  /** Closes every connection, and closes new connections immediately. */
  cut(): void;
  /** Keeps connections open, but forwards nothing. */
  stall(): void;
  /** Delays everything by these milliseconds, in each direction. With 0, forwards without delay again. */
  slow(ms: number): void;
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
  let delayMs = 0;
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
      const forward = inOrder(
        (chunk) => {
          if (state === "open") to.write(chunk);
        },
        () => delayMs,
      );
      sockets.add(from);
      from.on("data", forward.push);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        forward.end(() => to.destroy());
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
    slow(ms) {
      delayMs = ms;
    },
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

/** Passes chunks on in their order, each after the delay of its arrival. `end` calls back after the last. */
function inOrder(write: (chunk: Buffer) => void, delayMs: () => number) {
  let waiting = 0;
  let last = Promise.resolve();
  return {
    push(chunk: Buffer) {
      const ms = delayMs();
      if (ms === 0 && waiting === 0) {
        write(chunk);
        return;
      }
      waiting += 1;
      const due = sleep(ms);
      last = last
        .then(() => due)
        .then(() => {
          waiting -= 1;
          write(chunk);
        });
    },
    end(then: () => void) {
      if (waiting === 0) then();
      else void last.then(then);
    },
  };
}

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** `isReady` returns whether the server should receive new connections. */
export type Backend = { port: number; isReady(): Promise<boolean> };

/** Works like a Kubernetes Service: new connections go to ready backends, and open connections remain. */
export type TcpBalancer = {
  url: string;
  /** Backends that receive connections while they are ready. */
  backends: Set<Backend>;
  /** Connections that no backend accepted, or that a backend reset. */
  faults: string[];
  stop(): Promise<void>;
};

/** Starts a balancer that updates the ready backends every `everyMs` milliseconds. */
export async function startTcpBalancer(everyMs: number): Promise<TcpBalancer> {
  const backends = new Set<Backend>();
  const sockets = new Set<Socket>();
  const faults: string[] = [];
  let ready: Backend[] = [];
  let turn = 0;
  const look = async (): Promise<void> => {
    const seen = await Promise.all([...backends].map(async (one) => ((await one.isReady()) ? [one] : [])));
    ready = seen.flat();
  };
  const timer = setInterval(() => void look(), everyMs);
  const server = createServer((near) => {
    turn += 1;
    const backend = ready[turn % ready.length];
    near.on("error", () => {});
    if (backend === undefined) {
      faults.push("no backend is ready");
      near.resetAndDestroy();
      return;
    }
    const far = connect(backend.port, "127.0.0.1");
    far.on("error", ({ message }) => {
      faults.push(message);
      near.resetAndDestroy();
    });
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    backends,
    faults,
    async stop() {
      clearInterval(timer);
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

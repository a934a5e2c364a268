import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

export type StubRequest = { method: string; target: string; headers: Record<string, string>; body: string };

/** How the stub treats a connection after a complete request. */
export type StubBehaviour = (socket: Socket, request: StubRequest) => void;

/** A server of raw sockets that replaces the service. */
export type StubService = {
  url: string;
  requests: StubRequest[];
  connections(): number;
  respond(behaviour: StubBehaviour): void;
  stop(): Promise<void>;
};

/** Starts a stub on loopback, or on `server` (for TLS). The last call of `respond` applies. */
export async function startStub(behaviour: StubBehaviour, server: Server = createServer()) {
  const requests: StubRequest[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  let current = behaviour;
  server.on("connection", (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  });
  server.on(
    server.listenerCount("secureConnection") > 0 ? "secureConnection" : "connection",
    (socket: Socket) => {
      let received = Buffer.alloc(0);
      socket.on("data", (chunk: Buffer) => {
        received = Buffer.concat([received, chunk]);
        const read = readRequest(received);
        if (read === undefined) return;
        received = received.subarray(read.length);
        requests.push(read.request);
        current(socket, read.request);
      });
    },
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    connections: () => connections,
    respond(next) {
      current = next;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  } satisfies StubService as StubService;
}

export function httpText(status: number, body: string, headers: Record<string, string> = {}): string {
  const all = {
    "content-type": "application/json",
    "content-length": `${Buffer.byteLength(body)}`,
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Status\r\n${lines.join("")}\r\n${body}`;
}

export function answering(status: number, body: unknown, headers?: Record<string, string>): StubBehaviour {
  const text = httpText(status, typeof body === "string" ? body : JSON.stringify(body), headers);
  return (socket) => void socket.write(text);
}

/** Returns a stub behavior with different responses to verify and to reports of outcomes. */
export function answeringBoth(verify: StubBehaviour, outcome: StubBehaviour): StubBehaviour {
  return (socket, request) => (request.target.endsWith("/verify") ? verify : outcome)(socket, request);
}

function readRequest(received: Buffer): { request: StubRequest; length: number } | undefined {
  const end = received.indexOf("\r\n\r\n");
  if (end === -1) return undefined;
  const [first = "", ...lines] = received.subarray(0, end).toString("latin1").split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => {
      const [name = "", ...rest] = line.split(": ");
      return [name.toLowerCase(), rest.join(": ")];
    }),
  );
  const length = end + 4 + Number(headers["content-length"] ?? 0);
  if (received.length < length) return undefined;
  const [method = "", target = ""] = first.split(" ");
  const body = received.subarray(end + 4, length).toString("utf8");
  return { request: { method, target, headers, body }, length };
}

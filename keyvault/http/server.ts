import { constants } from "node:crypto";
import {
  createServer as createPlainServer,
  type IncomingMessage,
  type Server as PlainServer,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { SecureContextOptions, TLSSocket } from "node:tls";
import type { ConnectionLimits } from "../config.ts";
import { VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Readiness } from "../status.ts";
import type { TlsMaterial } from "../tls/material.ts";
import type { Trust } from "../tls/trust.ts";
import { createRefusedLog, limitConnections, limitHandshakeRate } from "./handshakes.ts";
import { malformedAnswer } from "./reply.ts";

const HANDSHAKE_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 75_000;
const STOP_DEADLINE_MS = 10_000;
const SWEEP_MS = 20;
/**
 * Requests of one connection that may wait for their answers. HTTP clients send one at a time; what does not
 * would fill the memory.
 */
const MOST_AT_ONCE = 32;
/** Connections of the health port. Callers need no certificate. */
const HEALTH_CONNECTIONS = 250;

/** A server that listens. */
export type Listening = {
  port: number;
  /** Takes no more calls, lets those in flight end (10 s at most), and lets go of the port. */
  stop(): Promise<void>;
};

/** Where to listen; port 0 takes a free one. */
export type Address = { host: string; port: number };

/**
 * Serves the application by TLS 1.3 to clients whose certificate the authority signed and nobody revoked.
 * The vault stays on plain `node:http`: a framework would put more code of others beside the keys, and the
 * vault has one body form, one error form and no middleware that it could share.
 * Sessions are not resumed, so each is checked again. Exchanged TLS files hold for new connections; those
 * that are open stay, and the application judges them again.
 */
export async function serveTls(
  app: RequestListener,
  trust: Trust,
  address: Address & { limits: ConnectionLimits },
  log: Logger,
): Promise<Listening> {
  const server = createServer(
    {
      ...contextOf(trust.material()),
      requestCert: true,
      rejectUnauthorized: true,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      requireHostHeader: false, // the application refuses it, with an answer in the form of every error
    },
    unlessEnded(app),
  );
  const logRefused = createRefusedLog(log, () => performance.now());
  const { most, handshakeRate } = address.limits;
  if (most > 0) limitConnections(server, most, log, logRefused);
  limitHandshakeRate(server, handshakeRate, log);
  const waiting = limitAtOnce(server, ({ remoteAddress: address }) =>
    log.warn({ event: "connection_dropped", code: "too_many_at_once", address }),
  );
  answerMalformed(server, waiting);
  server.on("tlsClientError", (error: NodeJS.ErrnoException, socket) => {
    logRefused(error.code, socket.remoteAddress);
  });
  server.on("secureConnection", (socket) => {
    const certificate = socket.getPeerX509Certificate();
    if (certificate !== undefined && trust.accepts(certificate)) return;
    logRefused("revoked", socket.remoteAddress);
    socket.destroy();
  });
  trust.onChange((material) => server.setSecureContext(contextOf(material)));
  return listen(server, address);
}

/** How many requests of a connection wait for their answers, and the last of them. */
type Waiting = Pick<WeakMap<Socket, { count: number; last: IncomingMessage }>, "get">;

/** Ends a connection that sends more requests than {@link MOST_AT_ONCE} before it has their answers. */
function limitAtOnce(server: Server | PlainServer, tell: (socket: Socket) => void = () => {}): Waiting {
  const waiting = new WeakMap<Socket, { count: number; last: IncomingMessage }>();
  server.prependListener("request", (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    const known = waiting.get(socket) ?? { count: 0, last: request };
    waiting.set(socket, known);
    known.count += 1;
    known.last = request;
    response.once("close", () => {
      known.count -= 1;
    });
    if (known.count <= MOST_AT_ONCE || socket.destroyed) return;
    tell(socket);
    socket.destroy();
  });
  return waiting;
}

/**
 * Answers bytes that are not HTTP or do not arrive in time like any malformed call, and ends the connection.
 * Where another call waits for its answer the connection is only ended, because this answer would be mistaken
 * for that one's.
 */
function answerMalformed(server: Server, waiting: Waiting): void {
  const refuse = (socket: Socket): void => {
    const { count = 0, last } = waiting.get(socket) ?? {};
    const isItself = count === 0 || (count === 1 && last?.complete === false);
    if (isItself && socket.writable && (socket as TLSSocket).authorized) socket.write(malformedAnswer());
    socket.destroySoon();
  };
  server.on("clientError", (_, socket) => refuse(socket as Socket));
  server.on("connect", ({ socket }: IncomingMessage) => refuse(socket.on("error", () => {})));
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
}

function contextOf({ authorities, cert, key }: TlsMaterial): SecureContextOptions {
  const ca = authorities.map((authority) => authority.toString());
  return { ca, cert, key, minVersion: "TLSv1.3", secureOptions: constants.SSL_OP_NO_TICKET };
}

/**
 * Serves `/livez` and `/readyz` by plain HTTP, for probes, which have no certificate and learn nothing but
 * yes or no, and `/metrics` as Prometheus reads them.
 */
export async function serveHealth(
  { readiness, metrics }: { readiness: Readiness; metrics: Metrics },
  address: Address,
): Promise<Listening> {
  const server = createPlainServer(
    unlessEnded((request, response) => {
      if (request.url === "/metrics") {
        void answerMetrics(response, metrics);
      } else {
        void answerProbe(request.url, readiness).then((status) => response.writeHead(status).end());
      }
    }),
  );
  limitAtOnce(server);
  keepNewest(server, HEALTH_CONNECTIONS);
  return listen(server, address);
}

/**
 * Leaves requests alone whose connection was ended: thousands may have been read together with the one that
 * ended it.
 */
function unlessEnded(listener: RequestListener): RequestListener {
  return (request, response) => {
    if (!request.socket.destroyed) listener(request, response);
  };
}

/**
 * Closes the oldest connection when there is one more than `most`: probes, which are short, are let in
 * however many connections are open.
 */
function keepNewest(server: PlainServer, most: number): void {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    if (open.size <= most) return;
    const [oldest] = open;
    oldest?.destroy();
  });
}

async function answerMetrics(response: ServerResponse, { registry }: Metrics): Promise<void> {
  const text = await registry.metrics();
  response.writeHead(200, { "content-type": registry.contentType }).end(text);
}

async function answerProbe(url: string | undefined, readiness: Readiness): Promise<number> {
  if (url === "/livez") return 200;
  if (url !== "/readyz") return 404;
  return readiness.check().then(
    () => 200,
    (error: unknown) => (error instanceof VaultError ? 503 : 500),
  );
}

async function listen(server: Server | PlainServer, { host, port }: Address): Promise<Listening> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return { port: (server.address() as AddressInfo).port, stop: () => stop(server) };
}

/**
 * Connections are kept alive, so each gets `connection: close` with its last answer, and idle ones are closed
 * as they are found.
 */
async function stop(server: Server | PlainServer): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.prependListener("request", (_, response: ServerResponse) =>
    response.setHeader("connection", "close"),
  );
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), STOP_DEADLINE_MS);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
}

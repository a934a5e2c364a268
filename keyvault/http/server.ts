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
import { ConfigError, type ConnectionLimits } from "../config.ts";
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
 * Maximum number of requests per connection that wait for a response. HTTP clients normally send one request
 * at a time. A client that sends many more would fill the vault's memory.
 */
const MOST_AT_ONCE = 32;
/** Maximum number of connections to the health port. Its clients need no certificate. */
const HEALTH_CONNECTIONS = 250;

/** A listening server. */
export type Listening = {
  port: number;
  /** Stops accepting calls, waits up to 10 s for running calls, and releases the port. */
  stop(): Promise<void>;
};

/** Address to listen on. Port 0 selects a free port. */
export type Address = { host: string; port: number };

/**
 * Serves the application over TLS 1.3. Accepts only clients with a certificate that the authority signed and
 * that is not revoked. Never resumes TLS sessions, so each new connection is checked. Replaced TLS files
 * apply to new connections. Open connections remain, and the application checks their certificates again.
 * Uses plain `node:http`, because a framework would put more third-party code next to the keys.
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
      requireHostHeader: false, // The application rejects it in the usual error format.
    },
    unlessEnded(app),
  );
  const logRefused = createRefusedLog(log, () => performance.now());
  const { most, handshakeRate } = address.limits;
  if (most > 0) limitConnections(server, most, log, logRefused);
  limitHandshakeRate(server, handshakeRate, log);
  const waiting = limitWaitingRequests(server, ({ remoteAddress: address }) =>
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
  return listen(server, address, "KEYVAULT");
}

type Waiting = Pick<WeakMap<Socket, { count: number; last: IncomingMessage }>, "get">;

function limitWaitingRequests(
  server: Server | PlainServer,
  onExceeded: (socket: Socket) => void = () => {},
): Waiting {
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
    onExceeded(socket);
    socket.destroy();
  });
  return waiting;
}

/**
 * Responds to bytes that are not HTTP, or that arrive too late, as if they were a malformed call, and closes
 * the connection. If another call on the connection still waits for its response, sends nothing, because the
 * client would take it for the response to that call.
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
 * Serves `/livez`, `/readyz` and `/metrics` over plain HTTP. Probes without a certificate learn only yes or
 * no.
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
  limitWaitingRequests(server);
  keepNewest(server, HEALTH_CONNECTIONS);
  return listen(server, address, "KEYVAULT_HEALTH");
}

/**
 * Ignores requests on a closed connection. Node may have read thousands of them together with the request
 * that closed it.
 */
function unlessEnded(listener: RequestListener): RequestListener {
  return (request, response) => {
    if (!request.socket.destroyed) listener(request, response);
  };
}

/** Closes the oldest connection beyond `most`. Probes are short, so a new probe always gets a connection. */
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

async function listen(
  server: Server | PlainServer,
  { host, port }: Address,
  setting: string,
): Promise<Listening> {
  await new Promise<void>((resolve, reject) => {
    const fail = (error: Error) => reject(listenError(error, { host, port }, setting));
    server.once("error", fail);
    server.listen(port, host, () => {
      server.off("error", fail);
      resolve();
    });
  });
  return { port: (server.address() as AddressInfo).port, stop: () => stop(server) };
}

/** `setting` is the common beginning of the names of the settings of host and port. */
function listenError(error: NodeJS.ErrnoException, { host, port }: Address, setting: string): Error {
  const messages: Record<string, string> = {
    EADDRINUSE: `${setting}_PORT: port ${port} of ${host} is in use. Stop the program that uses it, or choose another port`,
    EACCES: `${setting}_PORT: this user may not open port ${port}. Choose a port above 1023`,
    EADDRNOTAVAIL: `${setting}_HOST: ${host} is not an address of this machine`,
    ENOTFOUND: `${setting}_HOST: there is no host ${host}`,
  };
  const message = messages[error.code ?? ""];
  return message === undefined ? error : new ConfigError(message, { cause: error });
}

/** Closes idle connections repeatedly, because keep-alive connections end only with their next response. */
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

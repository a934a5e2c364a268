import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { StartError } from "../../config.ts";
import { ApiError } from "../../errors.ts";
import { MAX_BODY_BYTES } from "../../input/validate.ts";
import { networkOf } from "../../rates/client_rates.ts";
import { createPeerClient } from "../client_address.ts";
import { errorReply, securityHeaders, sendEarly, sendReply } from "../replies.ts";
import { hasDoubtfulEnd, headViolation, requestIdOf } from "../request_head.ts";
import { type ClientSocketBounds, createClientSockets, createPendingResponses } from "./connection_limits.ts";
import { createUnreadBodies, type UnreadBodies } from "./unread_body.ts";

/** Maximum size of a request line with its headers, in bytes. A proof fits into a header. */
export const MAX_HEADER_BYTES = 65_536;

/** A running server that accepts connections. */
export type RunningServer = {
  host: string;
  port: number;
  /** Keeps serving, but from now on sends `Connection: close` with each response. */
  drain(): void;
  /**
   * Stops accepting connections, and lets pending responses finish for at most `graceMs`. Then closes all
   * remaining connections. Resolves when every connection is closed. A second call waits for the same
   * shutdown.
   */
  stop(graceMs?: number): Promise<void>;
};

/** The address of a server, and optionally the names of its two settings. */
export type Address = { host: string; port: number; settings?: [host: string, port: string] | undefined };

/** Returns the address in these two settings. */
export function addressOf<Host extends string, Port extends string>(
  config: Record<Host, string> & Record<Port, number>,
  host: Host,
  port: Port,
): Address {
  return { host: config[host], port: config[port], settings: [host, port] };
}

const POLL_MS = 20;
/** The share of all connections above which idle ones are closed, so that nobody can occupy all of them. */
const CROWDED = 0.9;

/**
 * Limits of a server. The headers must arrive within `headersMs` milliseconds and the whole request within
 * `requestMs`. A connection is closed after `silenceMs` without any traffic during a request, and after
 * `keepAliveMs` between two requests.
 */
export type ServerLimits = {
  connections: number;
  perClient: number;
  clientOf: ClientSocketBounds["clientOf"];
  /** How many requests of one connection may wait for their responses. */
  pending: number;
  headersMs: number;
  requestMs: number;
  silenceMs: number;
  keepAliveMs: number;
  checkMs: number;
};

const LIMITS: ServerLimits = {
  connections: 10_000,
  perClient: 500,
  clientOf: createPeerClient([]),
  pending: 16,
  headersMs: 15_000,
  requestMs: 30_000,
  silenceMs: 60_000,
  keepAliveMs: 620_000,
  checkMs: 5_000,
};

/**
 * Starts a plain HTTP server with these limits:
 * - The headers of a request must arrive within 15 seconds, the whole request within 30.
 * - A connection is closed after 60 seconds without any traffic during a request.
 * - An idle connection is kept for 620 seconds, longer than most load balancers keep theirs.
 * - One network may have 500 connections, and all networks together 10,000. While more than nine tenths of
 *   these are open, each new connection closes all idle ones.
 * - A connection's requests are served one after the other. More than 16 unanswered requests close it.
 *
 * Bytes that are not HTTP, and requests without exactly one valid host, receive the same error as any
 * malformed call. Rejects if the server cannot listen on the address: with a `StartError` if the names of the
 * address's settings are given.
 */
export async function startServer(
  listener: RequestListener,
  { host, port, limits: given, settings }: Address & { limits?: Partial<ServerLimits> },
): Promise<RunningServer> {
  const limits = { ...LIMITS, ...given };
  const sockets = createClientSockets(limits);
  const pending = createPendingResponses(limits.pending);
  const unreadBodies = createUnreadBodies();
  const networkAt = ({ remoteAddress }: Socket) =>
    networkOf(limits.clientOf(remoteAddress) ?? remoteAddress ?? "");
  let draining = false;
  /** Sockets that close after the current response, because a proxy may see another end of its request. */
  const doubtful = new WeakSet<Socket>();
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.checkMs,
      requireHostHeader: false, // `headViolation` refuses such requests, with an error in the usual form
      noDelay: true,
    },
    (request, response) => {
      const { socket } = request;
      // A proxy may have sent these bytes as a part of the earlier request.
      if (doubtful.has(socket)) return;
      const isDoubtful = hasDoubtfulEnd(request);
      if (isDoubtful) doubtful.add(socket);
      if (draining || isDoubtful) response.shouldKeepAlive = false;
      pending.take(request, response, {
        serve() {
          const error = headViolation(request);
          if (error === undefined) {
            listener(request, response);
          } else {
            refuse(request, response, {
              error,
              // The end of a body in an unknown coding cannot be found.
              discard: () =>
                error.code === "not_implemented"
                  ? undefined
                  : unreadBodies.discard(request, networkAt(request.socket)),
            });
          }
        },
        refuse: () => refuse(request, response, { error: tooManyPending(), discard: () => undefined }),
      });
    },
  );
  server.maxConnections = limits.connections;
  server.setTimeout(limits.silenceMs);
  let open = 0;
  server.on("connection", (socket: Socket) => {
    open += 1;
    socket.once("close", () => {
      open -= 1;
    });
    if (open > limits.connections * CROWDED) pending.closeIdle();
    if (sockets.admit(socket)) return;
    socket.on("error", () => {});
    socket.write(rawAnswer(tooManyConnections()));
    socket.destroySoon();
  });
  server.on("checkContinue", (request, response) => {
    if (Number(request.headers["content-length"] ?? 0) <= MAX_BODY_BYTES) response.writeContinue();
    server.emit("request", request, response);
  });
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
  server.on("connect", (request, socket) => {
    socket.on("error", () => {});
    const isAnswering = pending.open(request.socket).some(({ socket: own }) => own === request.socket);
    if (!isAnswering) {
      socket.write(rawAnswer(new ApiError("invalid_request", "CONNECT: this is not a proxy")));
    }
    request.socket.destroySoon();
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // Sends no error while a response is due, because the client would mistake the error for that response.
    const isAnswered = pending
      .open(socket as Socket)
      .some(({ socket: own, headersSent, req }) => own === socket && (headersSent || req.complete));
    if (isAnswered || !socket.writable || error.code === "ECONNRESET") {
      socket.destroy();
    } else {
      refuseMalformed(error, socket);
    }
  });
  server.listen({ host, port });
  await once(server, "listening").catch((error) => {
    throw listenError(error, { host, port, settings });
  });
  let stopped: Promise<void> | undefined;
  const drain = (): void => {
    draining = true;
    for (const response of pending.open()) response.shouldKeepAlive = false;
  };
  const drainAndClose = async (graceMs: number): Promise<void> => {
    drain();
    let closed = false;
    const end = new Promise<void>((resolve) => server.close(() => resolve())).then(() => {
      closed = true;
    });
    const deadline = performance.now() + graceMs;
    while (!closed && performance.now() < deadline) {
      server.closeIdleConnections();
      await Promise.race([end, sleep(POLL_MS)]);
    }
    server.closeAllConnections();
    await end;
  };
  return {
    host,
    port: (server.address() as AddressInfo).port,
    drain,
    stop: (graceMs = 10_000) => {
      stopped ??= drainAndClose(graceMs);
      return stopped;
    },
  };
}

function listenError(error: NodeJS.ErrnoException, { host, port, settings }: Address): Error {
  const [hostName, portName] = settings ?? [];
  const messages: Record<string, string> = {
    EADDRINUSE: `${portName}: port ${port} of ${host} is in use. Stop the program that uses it, or choose another port`,
    EACCES: `${portName}: this user may not open port ${port}. Choose a port above 1023`,
    EADDRNOTAVAIL: `${hostName}: ${host} is not an address of this machine`,
    ENOTFOUND: `${hostName}: there is no host ${host}`,
  };
  const message = messages[error.code ?? ""];
  return settings === undefined || message === undefined ? error : new StartError(message, { cause: error });
}

const faults: Record<string, string> = {
  HPE_HEADER_OVERFLOW: `headers: larger than ${MAX_HEADER_BYTES} bytes`,
  ERR_HTTP_REQUEST_TIMEOUT: "the request did not arrive in time",
};

/** Without `Strict-Transport-Security`: the server does not know whether clients reach it over https. */
const commonHeaders = securityHeaders("");

/** Refuses a request before it reaches the listener. Closes the connection once the request was read. */
function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  { error, discard }: { error: ApiError; discard: () => ReturnType<UnreadBodies["discard"]> },
): void {
  const common = {
    ...commonHeaders,
    "x-request-id": requestIdOf(request.headers["x-request-id"]).answered,
    connection: "close",
  };
  const reply = errorReply(error);
  if (request.complete) {
    sendReply(response, reply, common);
  } else {
    sendEarly(response, reply, common, discard());
  }
}

function tooManyConnections(): ApiError {
  return new ApiError("rate_limited", "This address has too many open connections; close some", {
    "retry-after": "1",
  });
}

function tooManyPending(): ApiError {
  return new ApiError("rate_limited", "Too many requests on this connection are waiting for their answers", {
    "retry-after": "1",
  });
}

function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  const fault = faults[error.code ?? ""] ?? "not a well-formed HTTP request";
  socket.end(rawAnswer(new ApiError("invalid_request", fault)));
}

function rawAnswer(error: ApiError): string {
  const { status, headers, body } = errorReply(error);
  const lines = Object.entries({
    ...commonHeaders,
    ...headers,
    "x-request-id": requestIdOf(undefined).answered,
    "content-length": Buffer.byteLength(body),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`;
}

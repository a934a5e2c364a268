import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";
import { MAX_BODY_BYTES } from "./body.ts";
import { errorReply } from "./replies.ts";
import { requestIdOf } from "./request_id.ts";
import { requestFault } from "./request_line.ts";
import { securityHeaders } from "./security_headers.ts";

/** Bytes that a request's line and headers may have: a proof in a header fits. */
export const MAX_HEADER_BYTES = 65_536;

/** A server that listens. */
export type RunningServer = {
  host: string;
  port: number;
  /**
   * Takes no new connection, lets the answers under way finish for at most `graceMs`, telling each client that its
   * connection ends, then cuts off what is left.
   * Resolves when every connection is closed; calling it again waits for the same end.
   */
  stop(graceMs?: number): Promise<void>;
};

const POLL_MS = 20;

/**
 * Listens for plain HTTP. A request must arrive whole within 30 seconds, its headers within 15; an idle connection is
 * kept for 65, longer than the balancers in front keep theirs. What is no HTTP at all, names no host or names it twice is
 * answered like any malformed call. Rejects when the address cannot be had.
 */
export async function startServer(
  listener: RequestListener,
  { host, port }: { host: string; port: number },
): Promise<RunningServer> {
  let draining = false;
  const open = new Set<ServerResponse>();
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: 15_000,
      requestTimeout: 30_000,
      keepAliveTimeout: 65_000,
      connectionsCheckingInterval: 5_000,
      requireHostHeader: false, // `requestFault` refuses it, with an answer in the form of every error
      noDelay: true,
    },
    (request, response) => {
      if (draining) response.shouldKeepAlive = false;
      open.add(response);
      response.once("close", () => open.delete(response));
      const fault = requestFault(request);
      if (fault === undefined) listener(request, response);
      else refuse(response, fault);
    },
  );
  server.on("checkContinue", (request, response) => {
    if (Number(request.headers["content-length"] ?? 0) <= MAX_BODY_BYTES) response.writeContinue();
    server.emit("request", request, response);
  });
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const isAnswered = [...open].some((response) => response.socket === socket && response.headersSent);
    if (isAnswered || !socket.writable || error.code === "ECONNRESET") socket.destroy();
    else refuseMalformed(error, socket);
  });
  server.listen({ host, port });
  await once(server, "listening");
  let stopped: Promise<void> | undefined;
  const drainAndClose = async (graceMs: number): Promise<void> => {
    draining = true;
    for (const response of open) response.shouldKeepAlive = false;
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
    stop: (graceMs = 10_000) => {
      stopped ??= drainAndClose(graceMs);
      return stopped;
    },
  };
}

const faults: Record<string, string> = {
  HPE_HEADER_OVERFLOW: `headers: larger than ${MAX_HEADER_BYTES} bytes`,
  ERR_HTTP_REQUEST_TIMEOUT: "the request did not arrive in time",
};

/** Whether people reach this server over https is not known here, so that nothing is said of it. */
const commonHeaders = securityHeaders("");

/** Answers a request that no listener is shown, and ends its connection. */
function refuse(response: ServerResponse, fault: string): void {
  const { status, headers, body } = errorReply(new ApiError("invalid_request", fault));
  const id = requestIdOf(undefined).answered;
  const length = Buffer.byteLength(body);
  response
    .writeHead(status, {
      ...commonHeaders,
      ...headers,
      "x-request-id": id,
      "content-length": length,
      connection: "close",
    })
    .end(body);
}

/** Answers a connection on which no request could be read, and ends it. */
function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  const { status, headers, body } = errorReply(
    new ApiError("invalid_request", faults[error.code ?? ""] ?? "not a well-formed HTTP request"),
  );
  const lines = Object.entries({
    ...commonHeaders,
    ...headers,
    "x-request-id": requestIdOf(undefined).answered,
    "content-length": Buffer.byteLength(body),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} Bad Request\r\n${lines.join("")}\r\n${body}`);
}

import { constants } from "node:crypto";
import { readFile } from "node:fs/promises";
import {
  createServer as createPlainServer,
  type Server as PlainServer,
  type ServerResponse,
} from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type Koa from "koa";
import type { TlsConfig } from "../config.ts";
import { VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Readiness } from "../readiness.ts";

const HANDSHAKE_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 75_000;
const STOP_DEADLINE_MS = 10_000;
const SWEEP_MS = 20;

/** A server that listens. */
export type Listening = {
  port: number;
  /** Takes no more calls, lets those in flight end (10 s at most), and lets go of the port. */
  stop(): Promise<void>;
};

/** Where to listen; port 0 takes a free one. */
export type Address = { host: string; port: number };

/** Serves the application by TLS 1.3 to clients whose certificate the authority signed. Sessions are not resumed, so each is checked anew. */
export async function serveTls(app: Koa, tls: TlsConfig, address: Address, log: Logger): Promise<Listening> {
  const [ca, cert, key] = await Promise.all(
    [tls.caFile, tls.certFile, tls.keyFile].map((file) => readFile(file)),
  );
  const handle = app.callback();
  const server = createServer(
    {
      ca,
      cert,
      key,
      requestCert: true,
      rejectUnauthorized: true,
      minVersion: "TLSv1.3",
      secureOptions: constants.SSL_OP_NO_TICKET,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    (request, response) => void handle(request, response),
  );
  server.on("tlsClientError", (error: NodeJS.ErrnoException, socket) => {
    log.warn({ event: "handshake_refused", code: error.code, address: socket.remoteAddress });
  });
  return listen(server, address);
}

/** Serves `/livez` and `/readyz` by plain HTTP, for probes that have no certificate. They tell nothing but yes or no. */
export async function serveHealth(readiness: Readiness, address: Address): Promise<Listening> {
  const server = createPlainServer((request, response) => {
    void answerProbe(request.url, readiness).then((status) => response.writeHead(status).end());
  });
  return listen(server, address);
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

/** Connections are kept alive, so each is told to close with its last answer, and those that idle are closed as they are met. */
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

import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

// The cluster tour's pod contains only this file, so this file may import only Node's own modules.

/** A webhook request as received. Header names are in lower case. The body is not parsed. */
export type WebhookDelivery = { headers: IncomingHttpHeaders; rawBody: Buffer };

/** A stored delivery. Its `body` is in base64, and `received_at` in Unix seconds. */
export type KeptDelivery = { headers: IncomingHttpHeaders; body: string; received_at: number };

type WebhookServer = { port: number; close(): Promise<void> };

/** Path that accepts webhooks. */
export const WEBHOOK_PATH = "/webhooks";
/** Path that returns the stored deliveries. `?from=<number>` skips that many. */
export const DELIVERIES_PATH = "/deliveries";
const READY_PATH = "/readyz";
const BODY_LIMIT = 256 * 1024;
const MOST_DELIVERIES = 1_000;

/**
 * Starts a server that answers webhooks with the status from `take`, or with 500 if `take` throws. Answers
 * 413 to a body over 256 KiB, 200 to `GET /readyz`, and 404 to other requests. Without `host` it listens on
 * every address.
 */
export async function startWebhookServer({
  host,
  port,
  take,
}: {
  host?: string;
  port: number;
  take(delivery: WebhookDelivery): Promise<number>;
}): Promise<WebhookServer> {
  async function answer(request: IncomingMessage): Promise<number> {
    if (request.method === "GET" && request.url === READY_PATH) return 200;
    if (request.method !== "POST" || request.url !== WEBHOOK_PATH) return 404;
    try {
      const rawBody = await readBody(request);
      return rawBody === undefined ? 413 : await take({ headers: request.headers, rawBody });
    } catch {
      return 500;
    }
  }

  const server = createServer(async (request, response) => {
    response.writeHead(await answer(request)).end();
  });
  await once(server.listen(port, host), "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/**
 * Reads the whole body, since a sender may read the response only after it has sent everything. Returns
 * `undefined` for a body over the limit.
 */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= BODY_LIMIT) chunks.push(chunk);
  }
  return size <= BODY_LIMIT ? Buffer.concat(chunks) : undefined;
}

/**
 * Stores up to 1,000 webhooks, then returns 503. Accepts webhooks at `port` on every address. Returns stored
 * webhooks at `readPort` on loopback, which only port forwarding reaches in a pod. Port 0 selects a free
 * port. The first output line contains both ports.
 */
async function keepWebhooks(port: number, wantedReadPort: number): Promise<void> {
  const kept: KeptDelivery[] = [];
  const webhooks = await startWebhookServer({
    port,
    async take({ headers, rawBody }) {
      if (kept.length === MOST_DELIVERIES) return 503;
      const received_at = Math.floor(Date.now() / 1_000);
      kept.push({ headers, body: rawBody.toString("base64"), received_at });
      return 204;
    },
  });
  const reading = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
    if (pathname !== DELIVERIES_PATH) {
      response.writeHead(404).end();
      return;
    }
    const deliveries = kept.slice(Number(searchParams.get("from") ?? 0));
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ deliveries }));
  });
  await once(reading.listen(wantedReadPort, "127.0.0.1"), "listening");
  const { port: readPort } = reading.address() as AddressInfo;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => {
      reading.close();
      reading.closeAllConnections();
      void webhooks.close();
    });
  }
  process.stdout.write(`${JSON.stringify({ webhooks: webhooks.port, reading: readPort })}\n`);
}

if (import.meta.main) {
  const [port = 0, readPort = 0] = process.argv.slice(2).map(Number);
  await keepWebhooks(port, readPort);
}

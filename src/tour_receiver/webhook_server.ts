import { createServer, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import getRawBody from "raw-body";

/** A webhook request as it arrived: header names are lower case, the body is not parsed. */
export type WebhookDelivery = { headers: IncomingHttpHeaders; rawBody: Buffer };

/** A server that takes webhooks. */
export type WebhookServer = { port: number; close(): Promise<void> };

/** Where webhooks arrive. */
export const WEBHOOK_PATH = "/webhooks";
const READY_PATH = "/readyz";
const BODY_LIMIT = 256 * 1024;

/**
 * Listens for webhooks and answers each with the status that `take` gives, 500 when it throws. Larger bodies
 * than 256 KiB are 413, other calls 404. Without a `host` it listens on every address.
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
      const rawBody = await getRawBody(request, { limit: BODY_LIMIT });
      return await take({ headers: request.headers, rawBody });
    } catch (error) {
      return (error as { type?: string }).type === "entity.too.large" ? 413 : 500;
    }
  }

  const server = createServer(async (request, response) => {
    response.writeHead(await answer(request)).end();
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

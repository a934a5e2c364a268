import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, unixSeconds } from "../clock.ts";
import { StartError } from "../config.ts";
import { startWebhookServer } from "./webhook_server.ts";

/** A delivery as the tour reads it. `body` is in base64, `received_at` in Unix seconds. */
export type KeptDelivery = { headers: IncomingHttpHeaders; body: string; received_at: number };

/** Where deliveries are read: `?from=<number>` leaves out so many. */
export const DELIVERIES_PATH = "/deliveries";
const MOST_DELIVERIES = 1_000;

/**
 * Keeps webhooks for `deputize tour`, which checks them, until a signal ends it. They arrive at `port` of
 * every address, and are read at `readPort` of loopback: in a pod, by port forwarding alone. 0 takes a free
 * port; the first line of output says which. When 1,000 are kept, further ones are put off with 503.
 */
export async function runTourReceiver(
  options: { port: string; readPort: string },
  clock: Clock,
): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve());
  });
  const kept: KeptDelivery[] = [];
  const webhooks = await startWebhookServer({
    port: portOf(options.port),
    async take({ headers, rawBody }) {
      if (kept.length === MOST_DELIVERIES) return 503;
      kept.push({ headers, body: rawBody.toString("base64"), received_at: unixSeconds(clock.now()) });
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
  await once(reading.listen(portOf(options.readPort), "127.0.0.1"), "listening");
  const { port: readPort } = reading.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ webhooks: webhooks.port, reading: readPort })}\n`);
  await ended;
  reading.close();
  reading.closeAllConnections();
  await webhooks.close();
}

function portOf(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port;
  throw new StartError(`${JSON.stringify(text)} is not a port: give a number from 0 to 65535`);
}

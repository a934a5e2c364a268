import { appendFile } from "node:fs/promises";
import { type Clock, unixSeconds } from "../../clock.ts";
import { createInbox, type Inbox } from "./inbox.ts";
import { startWebhookServer, WEBHOOK_PATH } from "./webhook_server.ts";

/** Where webhooks arrive, and what has arrived. */
export type Receiver = Pick<Inbox, "useSecret" | "waitFor"> & { url: string; close(): Promise<void> };

/**
 * Starts a receiver on loopback. Every event is appended to `logFile` as one JSON line before it is
 * acknowledged.
 */
export async function startReceiver({
  logFile,
  clock,
  interrupted,
}: {
  logFile: string;
  clock: Clock;
  interrupted: AbortSignal;
}): Promise<Receiver> {
  const inbox = createInbox({
    interrupted,
    keep: ({ event, delivery_id }) => appendFile(logFile, `${JSON.stringify({ event, delivery_id })}\n`),
  });
  const host = "127.0.0.1";
  const server = await startWebhookServer({
    host,
    port: 0,
    take: (delivery) => inbox.take(delivery, unixSeconds(clock.now())),
  });
  return { ...inbox, url: `http://${host}:${server.port}${WEBHOOK_PATH}`, close: server.close };
}

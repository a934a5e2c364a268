import { appendFile } from "node:fs/promises";
import { type Clock, unixSeconds } from "../../clock.ts";
import { verifyWebhook } from "../../sdk/webhook.ts";
import { startWebhookServer, WEBHOOK_PATH, type WebhookDelivery } from "./webhook_server.ts";

/** A URL that accepts webhooks, and its inbox. */
export type Receiver = Pick<Inbox, "useSecret" | "waitFor"> & { url: string; close(): Promise<void> };

/** Starts a receiver on loopback. It appends each event to `logFile` as a JSON line, then acknowledges it. */
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

type ReceivedEvent = { event: string; delivery_id: string; body: Record<string, unknown> };

/** An inbox of deliveries. It verifies each one and counts it once, as the specification requires. */
export type Inbox = {
  /** Sets the key that verifies deliveries. Until then `take` returns 500, and the sender tries again. */
  useSecret(secret: string): void;
  /** Handles a delivery and returns the response status. `now` is in Unix seconds. */
  take(delivery: WebhookDelivery, now: number): Promise<number>;
  /** Resolves to the first matching event, past or future. Rejects after `timeoutMs` or when interrupted. */
  waitFor(fits: (received: ReceivedEvent) => boolean, timeoutMs: number): Promise<ReceivedEvent>;
};

/** Creates an empty inbox. It acknowledges an event only after `keep` has finished. */
export function createInbox({
  interrupted,
  keep = async () => undefined,
}: {
  interrupted: AbortSignal;
  keep?: (received: ReceivedEvent) => Promise<void>;
}): Inbox {
  const received: ReceivedEvent[] = [];
  const seen = new Set<string>();
  const waiting = new Set<() => void>();
  let refused = 0;
  let secret: string | undefined;

  return {
    useSecret(given) {
      secret = given;
    },
    async take({ headers, rawBody }, now) {
      if (secret === undefined) return 500;
      const checked = verifyWebhook({ headers, rawBody, secret, now });
      if (!checked.ok) {
        refused += 1;
        return 401;
      }
      if (seen.has(checked.deliveryId)) return 204;
      const body = JSON.parse(rawBody.toString("utf8")) as Record<string, unknown>;
      const entry = { event: String(body.event), delivery_id: checked.deliveryId, body };
      await keep(entry);
      seen.add(checked.deliveryId);
      received.push(entry);
      for (const look of waiting) look();
      return 204;
    },
    waitFor(fits, timeoutMs) {
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          forget();
          const others = refused === 0 ? "" : `; ${refused} deliveries had a wrong signature`;
          reject(new Error(`no such event was delivered within ${timeoutMs / 1000} s${others}`));
        }, timeoutMs);
        function forget(): void {
          clearTimeout(timer);
          waiting.delete(look);
          interrupted.removeEventListener("abort", look);
        }
        function look(): void {
          const found = received.find(fits);
          if (!found && !interrupted.aborted) return;
          forget();
          if (found) {
            resolve(found);
          } else {
            reject(interrupted.reason);
          }
        }
        waiting.add(look);
        interrupted.addEventListener("abort", look);
        look();
      });
    },
  };
}

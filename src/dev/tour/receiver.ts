import { appendFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, unixSeconds } from "../../clock.ts";
import { verifyWebhook } from "../../sdk/webhook.ts";

/** A delivery that was received, checked and written down. */
export type ReceivedEvent = { event: string; delivery_id: string; body: Record<string, unknown> };

/** A webhook receiver on loopback that follows the receiver rules of the specification. */
export type Receiver = {
  url: string;
  /** The key deliveries are checked with; until it is set, deliveries are put off with 500. */
  useSecret(secret: string): void;
  /**
   * The next event (received already or to come) that fits; rejects after `timeoutMs`, and when interrupted.
   */
  waitFor(fits: (received: ReceivedEvent) => boolean, timeoutMs: number): Promise<ReceivedEvent>;
  close(): Promise<void>;
};

const BODY_LIMIT = 256 * 1024;

/** Starts the receiver. Every event is appended to `logFile` as one JSON line before it is acknowledged. */
export async function startReceiver({
  logFile,
  clock,
  interrupted,
}: {
  logFile: string;
  clock: Clock;
  interrupted: AbortSignal;
}): Promise<Receiver> {
  const received: ReceivedEvent[] = [];
  const seen = new Set<string>();
  const waiting = new Set<() => void>();
  let secret: string | undefined;

  async function receive(
    headers: Record<string, string | string[] | undefined>,
    rawBody: Buffer,
  ): Promise<number> {
    if (secret === undefined) return 500;
    const checked = verifyWebhook({ headers, rawBody, secret, now: unixSeconds(clock.now()) });
    if (!checked.ok) return 401;
    if (seen.has(checked.deliveryId)) return 204;
    const body = JSON.parse(rawBody.toString("utf8")) as Record<string, unknown>;
    const entry = { event: String(body.event), delivery_id: checked.deliveryId, body };
    await appendFile(logFile, `${JSON.stringify({ event: entry.event, delivery_id: entry.delivery_id })}\n`);
    seen.add(checked.deliveryId);
    received.push(entry);
    for (const look of waiting) look();
    return 204;
  }

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= BODY_LIMIT) chunks.push(chunk);
    });
    request.on("end", () => {
      const answer =
        size > BODY_LIMIT ? Promise.resolve(413) : receive(request.headers, Buffer.concat(chunks));
      answer.then(
        (status) => response.writeHead(status).end(),
        () => response.writeHead(500).end(),
      );
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}/webhooks`,
    useSecret(given) {
      secret = given;
    },
    waitFor(fits, timeoutMs) {
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          forget();
          reject(new Error(`no such event was delivered within ${timeoutMs / 1000} s`));
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
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

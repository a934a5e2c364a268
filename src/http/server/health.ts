import type { RequestListener, ServerResponse } from "node:http";
import { Gauge } from "prom-client";
import { within } from "../../clock.ts";
import type { Metrics } from "../../metrics.ts";
import { withoutQuery } from "../paths.ts";

const READY_MS = 2_000;

/**
 * Returns the request listener of the health port, which must not be reachable from outside.
 * - `/livez` and `/healthz` return 200 while `alive` returns true, otherwise 503.
 * - `/readyz` returns 200 if `ready` resolves to true within 2 seconds, otherwise 503 and what `reason`
 *   returns.
 * - `/metrics` returns the metrics as Prometheus text.
 */
export function createHealth({
  metrics,
  ready,
  alive = () => true,
  reason = () => undefined,
}: {
  metrics: Pick<Metrics, "registry">;
  ready(): Promise<boolean>;
  /** Returns why the process is not ready, if somebody must act for it to become ready. */
  reason?: (() => string | undefined) | undefined;
  alive?: (() => boolean) | undefined;
}): RequestListener {
  const live = async (response: ServerResponse) =>
    alive() ? sendText(response, 200, "ok\n") : sendText(response, 503, "not alive\n");
  const pages: Record<string, (response: ServerResponse) => Promise<void>> = {
    "/livez": live,
    "/healthz": live,
    "/readyz": async (response) =>
      (await inTime(ready)) ? sendText(response, 200, "ok\n") : sendText(response, 503, notReady(reason())),
    "/metrics": async (response) =>
      sendText(response, 200, await metrics.registry.metrics(), metrics.registry.contentType),
  };
  return (request, response) => {
    const page = pages[withoutQuery(request.url ?? "")];
    if (page === undefined || (request.method !== "GET" && request.method !== "HEAD")) {
      sendText(response, 404, "not found\n");
      return;
    }
    page(response).catch(() => sendText(response, 500, "failed\n"));
  };
}

/** Registers the gauge `deputize_ready` with the label `role`. Each scrape calls `ready`. */
export function showReadiness(
  { registry }: Pick<Metrics, "registry">,
  role: string,
  ready: () => Promise<boolean>,
): void {
  new Gauge({
    name: "deputize_ready",
    help: "1 while /readyz of this process answers 200",
    labelNames: ["role"],
    registers: [registry],
    async collect() {
      this.set({ role }, (await inTime(ready)) ? 1 : 0);
    },
  });
}

function notReady(reason: string | undefined): string {
  return reason === undefined ? "not ready\n" : `not ready: ${reason}\n`;
}

async function inTime(ready: () => Promise<boolean>): Promise<boolean> {
  try {
    return await within(READY_MS, ready(), false);
  } catch {
    return false;
  }
}

function sendText(
  response: ServerResponse,
  status: number,
  text: string,
  contentType = "text/plain; charset=utf-8",
): void {
  if (response.headersSent) return;
  response
    .writeHead(status, { "content-type": contentType, "content-length": Buffer.byteLength(text) })
    .end(text);
}

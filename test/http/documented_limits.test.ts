import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { readFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createBodyLimits } from "../../src/http/body.ts";
import { createHealth } from "../../src/http/server/health.ts";
import { createMetrics } from "../../src/metrics.ts";
import { startApi } from "../support/api.ts";
import { createBareApp } from "../support/bare_app.ts";
import { connectRaw } from "./support/raw_client.ts";
import { echoRoute } from "./support/sample_routes.ts";

const page = readFileSync(new URL("../../docs/api.md", import.meta.url), "utf8");

/** Returns a number in docs/api.md: the first group of the pattern, times a thousand for seconds. */
function documented(pattern: RegExp): number {
  const [, number = "", unit] = pattern.exec(page) ?? [];
  return Number(number.replaceAll(",", "")) * (unit === "seconds" ? 1_000 : 1);
}

/** Returns the server that receives the next request on a port. */
function serverOf(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const look = (message: unknown) => {
      const { server } = message as { server: Server };
      if ((server.address() as AddressInfo).port !== port) return;
      unsubscribe("http.server.request.start", look);
      resolve(server);
    };
    subscribe("http.server.request.start", look);
    fetch(`http://127.0.0.1:${port}/none`).catch(reject);
  });
}

test("both ports of the API have the documented limits", async () => {
  const api = await startApi();
  onTestFinished(() => api.stop());
  for (const { port } of [api, new URL(api.operatorUrl)]) {
    const server = await serverOf(Number(port));
    expect({
      headers: server.headersTimeout,
      request: server.requestTimeout,
      silence: server.timeout,
      keepAlive: server.keepAliveTimeout,
      connections: server.maxConnections,
    }).toEqual({
      headers: documented(/^\| time for a request's headers \| (\d+) (seconds) \|/m),
      request: documented(/^\| time for a whole request \| (\d+) (seconds) \|/m),
      silence: documented(
        /^\| time without any data in either direction, during a request \| (\d+) (seconds) \|/m,
      ),
      keepAlive: documented(/^\| time between .* \(`KEEP_ALIVE_SECONDS`\) \| (\d+) (seconds) \|/m),
      connections: documented(/^\| connections of a process \(`CONNECTIONS`\) \| ([\d,]+) \|/m),
    });
  }
});

describe("a call that gets no result", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  /** Makes a call to a listener whose work starts and never ends. Returns the text of the answer so far. */
  async function hangingCall(path: string, listenerOf: (hang: () => Promise<never>) => RequestListener) {
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const listener = listenerOf(() => {
      start();
      return new Promise(() => {});
    });
    const server = createServer(listener).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const send = `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
    const client = await connectRaw((server.address() as AddressInfo).port, { send });
    onTestFinished(() => {
      client.socket.destroy();
      server.close();
    });
    await started;
    return client;
  }

  const settled = () => new Promise((resolve) => setImmediate(resolve));

  test("gets 503 from the API at the documented deadline", async () => {
    const deadlineMs = documented(/cannot complete a call within (\d+) (seconds), it returns 503/);
    const client = await hangingCall("/v1/service/echo", (handle) =>
      createBareApp({ routes: [echoRoute({ method: "GET", handle })], metrics: createMetrics() }),
    );
    vi.advanceTimersByTime(deadlineMs - 1);
    await settled();
    expect(client.text()).toBe("");
    vi.advanceTimersByTime(1);
    await expect.poll(client.text).toContain('"code":"unavailable"');
  });

  test("gets 503 from /readyz after 2 seconds", async () => {
    const client = await hangingCall("/readyz", (ready) => createHealth({ metrics: createMetrics(), ready }));
    vi.advanceTimersByTime(1_999);
    await settled();
    expect(client.text()).toBe("");
    vi.advanceTimersByTime(1);
    await expect.poll(client.text).toMatch(/^HTTP\/1\.1 503 .*not ready/s);
  });

  test("gets 400 if its body has not arrived after the documented time", async () => {
    const bodyMs = documented(/^\| time for a body, .* \| (\d+) (seconds) \|/m);
    const limits = createBodyLimits({ perClient: 1 });
    let refusal: unknown;
    void limits
      .wait("192.0.2.1", () => new Promise(() => {}))
      .catch((error: unknown) => {
        refusal = error;
      });
    await vi.advanceTimersByTimeAsync(bodyMs - 1);
    expect(refusal).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(refusal).toMatchObject({
      code: "invalid_request",
      message: `body: did not arrive within ${bodyMs / 1_000} seconds`,
    });
  });
});

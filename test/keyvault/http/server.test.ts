import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test, vi } from "vitest";
import { serveHealth } from "../../../keyvault/http/server.ts";
import { createMetrics } from "../../../keyvault/metrics.ts";

afterEach(() => {
  vi.useRealTimers();
});

test("stop() waits at most 10 s for a call that does not finish", async () => {
  const asked = Promise.withResolvers<void>();
  const readiness = {
    check() {
      asked.resolve();
      return new Promise<void>(() => {});
    },
  };
  const parts = { readiness, metrics: createMetrics() };
  const { port, stop } = await serveHealth(parts, { host: "127.0.0.1", port: 0 });
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {}).write("GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await asked.promise;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let isStopped = false;
  const stopped = stop().then(() => {
    isStopped = true;
  });
  vi.advanceTimersByTime(9_999);
  await sleep(100);
  expect(isStopped).toBe(false);
  const ended = once(socket.resume(), "close");
  vi.advanceTimersByTime(1);
  await Promise.race([stopped, sleep(2_000)]);
  socket.destroy();
  expect(isStopped).toBe(true);
  await ended;
});

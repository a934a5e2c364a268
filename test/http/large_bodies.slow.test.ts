import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { startApi, type TestApi } from "../support/api.ts";
import { sendEndlessly } from "./support/endless_sender.ts";
import { echoRoute } from "./support/sample_routes.ts";

let api: TestApi;
beforeAll(async () => {
  const raw = echoRoute({ id: "raw", path: "/v1/service/raw", bodyForm: "raw", body: z.unknown() });
  api = await startApi({ routes: [raw] });
});
afterAll(() => api.stop());

async function trickle(first: number) {
  const started = performance.now();
  let size = first;
  const { answer } = await sendEndlessly(api, "close", async (socket) => {
    socket.write(`${size.toString(16)}\r\n${"x".repeat(size)}\r\n`);
    size = 1;
    await new Promise((resolve) => setTimeout(resolve, 500));
  });
  return { answers: answer.match(/HTTP\/1\.1 \d+/g), seconds: (performance.now() - started) / 1000 };
}

test.concurrent("a client that keeps sending a too large body is disconnected after 30 seconds", async () => {
  const { answers, seconds } = await trickle(0x50000);
  expect(answers).toEqual(["HTTP/1.1 400"]);
  expect(seconds).toBeGreaterThan(25);
  expect(seconds).toBeLessThan(45);
});

test.concurrent("a request that is answered late gets only one response, although its time limit passes in the meantime", async () => {
  let size = 0;
  const { answer } = await sendEndlessly(api, "close", async (socket) => {
    size += 1;
    const bytes = size === 20 ? 0x50000 : 1;
    socket.write(`${bytes.toString(16)}\r\n${"x".repeat(bytes)}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  });
  expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 400"]);
});

import { afterEach, expect, test } from "vitest";
import { startWebhookServer, type WebhookDelivery } from "../../../src/dev/tour/webhook_server.ts";

let server: Awaited<ReturnType<typeof startWebhookServer>> | undefined;
afterEach(() => server?.close());

async function start(take: (delivery: WebhookDelivery) => Promise<number>): Promise<string> {
  server = await startWebhookServer({ host: "127.0.0.1", port: 0, take });
  return `http://127.0.0.1:${server.port}`;
}

const post = (url: string, body: string) =>
  fetch(url, { method: "POST", body, headers: { "X-Service-Signature": "s" } }).then(({ status }) => status);

test("the webhook server passes a webhook on unchanged and returns the handler's status", async () => {
  const taken: WebhookDelivery[] = [];
  const url = await start(async (delivery) => {
    taken.push(delivery);
    return 204;
  });
  expect(await post(`${url}/webhooks`, '{ "a": 1 }')).toBe(204);
  expect(taken.map(({ rawBody }) => rawBody.toString())).toEqual(['{ "a": 1 }']);
  expect(taken[0]?.headers).toMatchObject({ "x-service-signature": "s" });
});

test("the webhook server accepts a body of 256 KiB and rejects a larger one", async () => {
  const url = await start(async () => 204);
  expect(await post(`${url}/webhooks`, "a".repeat(256 * 1024))).toBe(204);
  expect(await post(`${url}/webhooks`, "a".repeat(256 * 1024 + 1))).toBe(413);
});

test("the webhook server returns 500 if the handler throws, 404 to other calls, and 200 to a readiness probe", async () => {
  const url = await start(async () => {
    throw new Error("the disk is full");
  });
  expect(await post(`${url}/webhooks`, "{}")).toBe(500);
  expect(await post(`${url}/`, "{}")).toBe(404);
  expect((await fetch(`${url}/webhooks`)).status).toBe(404);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
});

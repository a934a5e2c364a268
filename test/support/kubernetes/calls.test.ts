import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { callsOf } from "./calls.ts";

const wait = (message: string) => ({ status: 429, body: { message, details: { retryAfterSeconds: 1 } } });
const putOff = wait("storage is (re)initializing");
const done = { status: 201, body: { kind: "Platform" } };

let stop = (): void => undefined;
afterEach(() => stop());

/** Starts a server that sends these responses in order. Returns its client and the received requests. */
async function serving(...answers: { status: number; body: object }[]) {
  const sent: string[] = [];
  const server = createServer(async (request, response) => {
    const text = (await request.toArray()).join("");
    sent.push(`${request.method} ${request.url} ${text}`);
    const { status, body } = answers[sent.length - 1] ?? { status: 500, body: {} };
    response.writeHead(status).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stop = () => {
    server.close();
    server.closeAllConnections();
  };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { sent, call: callsOf({ url, ca: "", adminToken: "token" }).call };
}

test("callsOf repeats a call while the API server reinitializes its storage", async () => {
  const { call, sent } = await serving(putOff, putOff, done);
  expect(await call("POST", "/apis", { kind: "Platform" })).toEqual(done);
  expect(sent).toEqual(Array.from({ length: 3 }, () => 'POST /apis {"kind":"Platform"}'));
});

test("callsOf returns any other 429 to the caller", async () => {
  const other = wait("too many requests, please try again later");
  const { call, sent } = await serving(other, done);
  expect(await call("GET", "/apis")).toEqual(other);
  expect(sent).toHaveLength(1);
});

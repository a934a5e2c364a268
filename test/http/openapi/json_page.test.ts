import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { request } from "undici";
import { describe, expect, test, vi } from "vitest";
import { jsonPage } from "../../../src/http/openapi/json_page.ts";
import { runningApi } from "../../support/api.ts";
import { sendRaw } from "../walk/call.ts";
import { published } from "../walk/documented.ts";

const api = runningApi();

test.each([
  ["immediately", 1],
  ["at_request", 0],
] as const)(
  "a page that is created %s has asked for its document %i times before any request",
  (time, times) => {
    const document = vi.fn(() => ({}));
    jsonPage("/document.json", document, time);
    expect(document).toHaveBeenCalledTimes(times);
  },
);

describe("GET /openapi.json", () => {
  const ask = (headers: [string, string][] = [], method = "GET") =>
    sendRaw(api.url, { method, path: "/openapi.json", headers });

  test("returns the published document as JSON", async () => {
    const answer = await ask();
    expect([answer.status, answer.headers.get("content-encoding")]).toEqual([200, null]);
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    const { servers: _, ...document } = JSON.parse(answer.text);
    expect(document).toEqual(JSON.parse(JSON.stringify({ ...published, servers: undefined })));
    expect((await ask([], "POST")).status).toBe(404);
  });

  test("compresses the document if the client accepts it", async () => {
    for (const [accepted, encoding, decode] of [
      ["gzip, deflate", "gzip", gunzipSync],
      ["br", "br", brotliDecompressSync],
    ] as const) {
      const answer = await fetchRaw({ "accept-encoding": accepted });
      expect(answer.headers["content-encoding"]).toBe(encoding);
      expect(answer.headers.vary).toBe("Accept-Encoding");
      expect(answer.body.length).toBeLessThan(50_000);
      expect(decode(answer.body).toString()).toBe((await ask()).text);
    }
  });

  test("returns 304 for the ETag of the same document", async () => {
    const etag = (await ask()).headers.get("etag") ?? "";
    expect(etag).toMatch(/^W\/"[0-9a-f]{32}"$/);
    const same = await ask([["if-none-match", etag]]);
    expect([same.status, same.text, same.headers.get("etag")]).toEqual([304, "", etag]);
    expect((await ask([["if-none-match", '"other"']])).status).toBe(200);
    const compressed = await fetchRaw({ "accept-encoding": "gzip", "if-none-match": etag });
    expect([compressed.status, compressed.body.length]).toEqual([304, 0]);
  });

  async function fetchRaw(headers: Record<string, string>) {
    const { statusCode, headers: seen, body } = await request(`${api.url}/openapi.json`, { headers });
    return { status: statusCode, headers: seen, body: Buffer.from(await body.arrayBuffer()) };
  }
});

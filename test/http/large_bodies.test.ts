import { spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { startApi, type TestApi } from "../support/api.ts";
import { collectGarbage } from "../support/garbage.ts";
import { sendEndlessly } from "./support/endless_sender.ts";
import { echoRoute, jsonRoute } from "./support/sample_routes.ts";

const MIB = 1_048_576;
const JSON_TYPE = { "content-type": "application/json" };
const TOO_LARGE =
  '{"error":{"code":"invalid_request","message":"body: larger than 262144 bytes","status":400}}';
const PATHS = ["json", "raw", "none"];

let api: TestApi;
beforeAll(async () => {
  api = await startApi({
    routes: [
      jsonRoute(),
      echoRoute({ id: "raw", path: "/v1/service/raw", bodyForm: "raw", body: z.unknown() }),
      echoRoute({ id: "none", path: "/v1/service/none" }),
      echoRoute({ id: "guarded", path: "/v1/service/guarded", access: "api_key" }),
    ],
  });
});
afterAll(() => api.stop());

const urlOf = (path: string) => `${api.url}/v1/service/${path}`;

type Seen = { status: number; text: string };

/** Node's own client reads while it sends. */
async function byNode(path: string, body: Buffer, connection: "close" | "keep-alive"): Promise<Seen> {
  const sent = request(urlOf(path), {
    method: "POST",
    headers: { ...JSON_TYPE, "content-length": body.length, connection },
  });
  sent.end(body);
  const [response] = await once(sent, "response");
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return { status: response.statusCode, text: Buffer.concat(chunks).toString() };
}

async function byFetch(path: string, body: Uint8Array | ReadableStream): Promise<Seen> {
  const init = { method: "POST", headers: JSON_TYPE, body, duplex: "half" };
  const response = await fetch(urlOf(path), init as RequestInit);
  return { status: response.status, text: await response.text() };
}

function streamOf(body: Buffer): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= body.length) return controller.close();
      controller.enqueue(body.subarray(at, at + 65_536));
      at += 65_536;
    },
  });
}

/** Returns the output of a program that reads the body from standard input, if it is installed. */
async function run(program: string, args: string[], body: Buffer): Promise<string | undefined> {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const missing = once(child, "error").then(() => undefined);
  const printed = (async () => {
    child.stdin.on("error", () => {});
    child.stdin.end(body);
    const chunks: Buffer[] = [];
    for await (const chunk of child.stdout) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  })();
  return Promise.race([printed, missing.then(() => undefined)]);
}

function read(printed: string): Seen {
  const [status = "", ...rest] = printed.split("\n");
  return { status: Number(status), text: rest.join("\n").trim() };
}

/** Python's clients send the whole body before they read a byte of the response. */
const PYTHON = {
  "http.client": `
connection = http.client.HTTPConnection(url.hostname, url.port)
connection.request("POST", url.path, body, {"Content-Type": "application/json"})
answer = connection.getresponse()
print(answer.status); print(answer.read().decode())`,
  urllib: `
try:
    answer = urllib.request.urlopen(urllib.request.Request(url.geturl(), body, {"Content-Type": "application/json"}))
except urllib.error.HTTPError as refused:
    answer = refused
print(answer.status); print(answer.read().decode())`,
};
const IMPORTS = `
import http.client, sys, urllib.error, urllib.parse, urllib.request
url = urllib.parse.urlparse(sys.argv[1])
body = sys.stdin.buffer.read()`;

describe("a client can read the refusal of a 5 MB body", () => {
  const body = Buffer.alloc(5_000_000, "x");
  const refused: Seen = { status: 400, text: TOO_LARGE };

  test.each(PATHS)("with Node's http client, on a %s route", async (path) => {
    for (let round = 0; round < 2; round += 1) {
      expect(await byNode(path, body, "keep-alive")).toEqual(refused);
      expect(await byNode(path, body, "close")).toEqual(refused);
    }
  });

  test.each(PATHS)("with fetch, on a %s route", async (path) => {
    for (let round = 0; round < 2; round += 1) {
      expect(await byFetch(path, body)).toEqual(refused);
      expect(await byFetch(path, streamOf(body))).toEqual(refused);
    }
  });

  test.each(PATHS)("with curl, on a %s route", async (path) => {
    const common = ["-s", "-H", "content-type: application/json", "--data-binary", "@-"];
    for (const more of [[], ["-H", "connection: close"], ["-H", "transfer-encoding: chunked"], ["-0"]]) {
      const printed = await run("curl", [...common, ...more, urlOf(path)], body);
      if (printed === undefined) return console.warn("SKIPPED: there is no curl on this machine");
      expect(printed).toBe(TOO_LARGE);
    }
  });

  test.each(Object.entries(PYTHON))("with Python's %s", async (_, program) => {
    for (const path of PATHS) {
      const printed = await run("python3", ["-c", `${IMPORTS}${program}`, urlOf(path)], body);
      if (printed === undefined) return console.warn("SKIPPED: there is no python3 on this machine");
      expect(read(printed)).toEqual(refused);
    }
  });

  test("even if the body was not read because the caller is unknown", async () => {
    const answer = await byNode("guarded", body, "close");
    expect(answer).toMatchObject({ status: 401, text: expect.stringContaining("invalid_api_key") });
  });

  test("and can send the next call on the same connection", async () => {
    const socket = connect(api.port, "127.0.0.1");
    let answers = "";
    socket.on("data", (chunk) => {
      answers += chunk.toString();
    });
    const head = (length: number) =>
      `POST /v1/service/none HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`;
    socket.write(head(body.length));
    socket.write(body);
    socket.write(head(0));
    await expect.poll(() => answers.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 400", "HTTP/1.1 200"]);
    socket.destroy();
  });
});

describe("a client that does not finish its request body", () => {
  test.each(["close", "keep-alive"])(
    "gets a response, and is disconnected after 64 MiB (%s)",
    async (connection) => {
      const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`;
      collectGarbage();
      const before = process.memoryUsage().arrayBuffers;
      let chunks = 0;
      let most = 0;
      const { answer, sent } = await sendEndlessly(api, connection, async (socket) => {
        if (++chunks % 128 === 0) {
          collectGarbage();
          most = Math.max(most, process.memoryUsage().arrayBuffers - before);
        }
        if (!socket.write(chunk)) await new Promise((resolve) => socket.once("drain", resolve));
      });
      expect(answer.endsWith(TOO_LARGE)).toBe(true);
      expect(sent).toBeGreaterThan(64 * MIB);
      expect(sent).toBeLessThan(96 * MIB);
      expect(most).toBeLessThan(16 * MIB);
    },
  );
});

import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createBodyLimits } from "../../src/http/body.ts";
import { boundedConstraints } from "../../src/input/delegation_fields.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { echoRoute, jsonRoute } from "./support/sample_routes.ts";

const MAX = 262_144;
const JSON_TYPE = { "content-type": "application/json" };
let api: TestApi;
beforeAll(async () => {
  api = await startApi({
    routes: [
      jsonRoute(),
      echoRoute({ id: "raw", path: "/v1/service/raw", bodyForm: "raw", body: z.unknown() }),
      echoRoute({
        id: "free",
        path: "/v1/service/free",
        body: z
          .object({ constraints: boundedConstraints, receipt: z.record(z.string(), z.unknown()) })
          .partial(),
      }),
      echoRoute({ id: "none", path: "/v1/service/none" }),
      echoRoute({ id: "optional", path: "/v1/service/optional", body: z.object({ a: z.int() }).optional() }),
    ],
  });
});
afterAll(() => api.stop());

async function send(
  path: string,
  body: string | Uint8Array | ReadableStream | undefined,
  headers: Record<string, string> = JSON_TYPE,
) {
  const init = { method: "POST", headers, ...(body === undefined ? {} : { body, duplex: "half" }) };
  const response = await fetch(`${api.url}/v1/service/${path}`, init as RequestInit);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const refused = (message: string | RegExp) => ({
  status: 400,
  body: {
    error: {
      code: "invalid_request",
      status: 400,
      message: typeof message === "string" ? message : expect.stringMatching(message),
    },
  },
});

function jsonOf(bytes: number): string {
  return `{"text":"${"x".repeat(bytes - 11)}"}`;
}

function inChunks(text: string): ReadableStream<Uint8Array> {
  const bytes = Buffer.from(text);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.subarray(at, at + 40_000));
      at += 40_000;
    },
  });
}

describe("a body's size", () => {
  test.each(["json", "raw", "none"])("may be 262144 bytes on %s routes", async (path) => {
    expect((await send(path, jsonOf(MAX))).status).toBe(200);
    expect((await send(path, inChunks(jsonOf(MAX)))).status).toBe(200);
  });

  test.each(["json", "raw", "none"])("may not be 262145 bytes on %s routes", async (path) => {
    expect(await send(path, jsonOf(MAX + 1))).toMatchObject(refused("body: larger than 262144 bytes"));
    expect(await send(path, inChunks(jsonOf(MAX + 1)))).toMatchObject(
      refused("body: larger than 262144 bytes"),
    );
  });

  test("causes a refusal as soon as it is announced, before any byte arrives", async () => {
    const head = `POST /v1/service/raw HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${MAX + 1}\r\n\r\n`;
    expect(await firstAnswer(head)).toMatch(/^HTTP\/1\.1 400 .*"message":"body: larger than 262144 bytes"/s);
  });

  test("causes a refusal before the body is sent, if the client waits for 100 Continue", async () => {
    const head = (length: number) =>
      `POST /v1/service/raw HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`;
    expect(await firstAnswer(head(MAX + 1))).toMatch(/^HTTP\/1\.1 400 /);
    expect(await firstAnswer(head(MAX))).toMatch(/^HTTP\/1\.1 100 Continue/);
  });
});

/** Returns the first bytes of the response to an unfinished request, and then closes the connection. */
function firstAnswer(head: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(api.port, "127.0.0.1", () => socket.write(head));
    socket.once("data", (chunk) => {
      socket.destroy();
      resolve(chunk.toString());
    });
    socket.once("error", reject);
  });
}

describe("a JSON body", () => {
  test.each([
    ["cut short", '{"text":"a"', /^body: invalid_json/],
    ["not JSON", "text=a", /^body: invalid_json/],
    ["followed by another value", '{"text":"a"} {}', /^body: invalid_json/],
    ["with a member twice", '{"text":"a","text":"b"}', /^body: duplicate_key/],
    ["with a member twice, once in escapes", '{"text":"a","\\u0074ext":"b"}', /^body: duplicate_key/],
    ["with a member twice at a deeper level", '{"text":"a","x":[{"y":1,"y":1}]}', /^body: duplicate_key/],
    ["nested too deeply", `{"text":"a","x":${"[".repeat(32)}${"]".repeat(32)}}`, /^body: too_deep/],
    ["with U+0000", '{"text":"a\\u0000"}', "body: must not contain U+0000"],
    [
      "with U+0000 at a deeper level",
      '{"text":"a","list":[{"x":"\\u0000"}]}',
      "body: must not contain U+0000",
    ],
    ["with U+0000 in a name", '{"text":"a","\\u0000":1}', "body: must not contain U+0000"],
    [
      "with U+0000 in an unknown member",
      '{"text":"a","x":{"y":["\\u0000"]}}',
      "body: must not contain U+0000",
    ],
    ["with half a surrogate pair", '{"text":"\\ud800"}', /^body: invalid_utf8/],
    ["with two byte-order marks", '\ufeff\ufeff{"text":"a"}', /^body: invalid_json/],
    ["with a byte-order mark inside", '{\ufeff"text":"a"}', /^body: invalid_json/],
    [
      "with a number too large for its member",
      '{"text":"a","list":[{"n":1e16}]}',
      "body.list[0].n: must be within ±(2^53−1)",
    ],
    ["an array", "[]", /^body: Invalid input: expected object/],
    ["null", "null", /^body: Invalid input: expected object/],
    ["with a wrong type", '{"text":7}', /^body\.text: Invalid input: expected string, received number$/],
    ["without a required member", "{}", /^body\.text: Invalid input: expected string, received undefined$/],
    ["with a wrong type further in", '{"text":"a","list":[{"n":1},{"n":1.5}]}', /^body\.list\[1\]\.n: /],
  ])("causes an error that names the location: %s", async (_, body, message) => {
    expect(await send("json", body)).toMatchObject(refused(message));
  });

  test("may begin with a byte-order mark, and may be sent with the coding identity", async () => {
    const marked = Buffer.concat([Buffer.of(0xef, 0xbb, 0xbf), Buffer.from('{"text":"a"}')]);
    for (const path of ["json", "raw", "none"]) expect((await send(path, marked)).status).toBe(200);
    const coded = await send("json", '{"text":"a"}', { ...JSON_TYPE, "content-encoding": "Identity" });
    expect(coded.status).toBe(200);
  });

  test("may have whole numbers of any size only in members that are ignored", async () => {
    const large = '{"at":[1764417600123456789,-9007199254740992,9007199254740992.0,1e300,-1e400]}';
    expect(await send("json", `{"text":"a","at":${large}}`)).toEqual({ status: 200, body: { text: "a" } });
    expect((await send("none", large)).status).toBe(200);
    expect((await send("none", `{"at":${"9".repeat(400)}}`)).status).toBe(200);
    expect(await send("free", `{"constraints":[{"type":"x","params":${large}}]}`)).toMatchObject(
      refused("body.constraints[0].params.at[0]: must be within ±(2^53−1)"),
    );
    expect(await send("free", '{"receipt":{"n":9007199254740993}}')).toMatchObject(
      refused("body.receipt.n: must be within ±(2^53−1)"),
    );
  });

  test("may be null only on routes that do not require a body", async () => {
    for (const path of ["optional", "none"]) expect((await send(path, "null")).status).toBe(200);
    expect(await send("json", "null")).toMatchObject(refused(/^body: Invalid input: expected object/));
  });

  test("must be UTF-8", async () => {
    const body = Buffer.concat([Buffer.from('{"text":"'), Buffer.of(0xff), Buffer.from('"}')]);
    expect(await send("json", body)).toMatchObject(refused(/^body: invalid_utf8/));
  });

  test("may have 32 levels and unknown members", async () => {
    const body = `{"text":"\\\\u0000","__proto__":{"list":1},"x":${"[".repeat(31)}${"]".repeat(31)}}`;
    expect(await send("json", body)).toEqual({ status: 200, body: { text: "\\u0000" } });
  });

  test("never appears in an error about the body", async () => {
    const secret = "hunter2-hunter2";
    for (const body of [
      `{"text":"${secret}`,
      `{"${secret}":1,"${secret}":2}`,
      `{"text":["${secret}"]}`,
      secret,
    ]) {
      const answer = await send("json", body);
      expect(answer.status).toBe(400);
      expect(JSON.stringify(answer.body)).not.toContain(secret);
    }
  });

  test("with random content is accepted or refused, but never causes an internal error", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.json(), fc.string({ unit: "binary" })), async (body) => {
        const { status } = await send("json", body === "" ? " " : body);
        expect([200, 400]).toContain(status);
      }),
      { numRuns: 150 },
    );
  });

  test("may be missing only on routes that do not require a body", async () => {
    expect(await send("json", undefined, {})).toMatchObject(
      refused(/^body: Invalid input: expected object, received undefined/),
    );
    expect((await send("optional", undefined, {})).status).toBe(200);
    expect((await send("optional", '{"a":1}')).body).toMatchObject({ body: { a: 1 } });
    expect(await send("optional", '{"a":"1"}')).toMatchObject(refused(/^body\.a: /));
  });
});

describe("a route that takes no body", () => {
  test.each([
    ["nothing", undefined, {}],
    ["nothing, declared as JSON", undefined, JSON_TYPE],
    ["nothing, sent as chunks", inChunks(""), JSON_TYPE],
    ["JSON", '{"a":1}', JSON_TYPE],
    ["text without a content type", "{", {}],
    ["text declared as plain text", "{", { "content-type": "text/plain" }],
  ])("ignores a body that is %s", async (_, body, headers) => {
    expect((await send("none", body, headers as Record<string, string>)).status).toBe(200);
  });

  test.each(["{", "text=a", '{"a":1,"a":2}', '{"a":"\\u0000"}'])(
    "refuses a body that is declared as JSON and is %s",
    async (body) => {
      expect(await send("none", body)).toMatchObject(refused(/^body/));
    },
  );
});

describe("a content type", () => {
  test.each([
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON;charset=UTF-8",
    'application/json; charset="utf-8"',
    "application/json; charset=UTF8",
  ])("causes no refusal if it is %s", async (type) => {
    expect((await send("json", '{"text":"a"}', { "content-type": type })).status).toBe(200);
  });

  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=latin1",
    "application/jsonp",
    "text/json",
    // A web page may send this content type to another site without a preflight request.
    "text/plain; application/json",
  ])("causes a refusal if it is %s", async (type) => {
    for (const path of ["json", "raw"]) {
      const answer = await send(path, '{"text":"a"}', { "content-type": type });
      expect(answer).toMatchObject(refused("content-type: must be application/json"));
    }
  });

  test("must be sent with a body, and may be omitted without a body", async () => {
    const answer = await send("json", Buffer.from('{"text":"a"}'), {});
    expect(answer).toMatchObject(refused("content-type: must be application/json"));
    expect((await send("raw", undefined, {})).status).toBe(200);
    expect((await send("none", undefined, JSON_TYPE)).status).toBe(200);
  });

  test("does not make a compressed body acceptable", async () => {
    const body = gzipSync('{"text":"a"}');
    const answer = await send("json", body, { ...JSON_TYPE, "content-encoding": "gzip" });
    expect(answer).toMatchObject(refused(/^content-encoding: /));
  });
});

describe("a route with a raw body", () => {
  test("passes the body to the handler unchanged, even if it is malformed", async () => {
    const bytes = Buffer.concat([Buffer.from('{"a":1,"a":2}'), Buffer.of(0, 0xff, 0xfe)]);
    const answer = await send("raw", bytes);
    expect(answer.body.body).toEqual({ bytes: bytes.toString("base64") });
  });

  test("passes empty bytes to the handler if the request has no body", async () => {
    expect((await send("raw", undefined, {})).body.body).toEqual({ bytes: "" });
  });
});

test("a route that takes no body ignores a body", async () => {
  const answer = await send("none", "not { json", { "content-type": "text/plain" });
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.body).not.toHaveProperty("body");
});

test("an aborted request body affects only the connection on which it was sent", async () => {
  const socket = connect(api.port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(
    "POST /v1/service/json HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
  );
  await new Promise((resolve) => setTimeout(resolve, 50));
  socket.destroy();
  expect((await send("json", '{"text":"a"}')).status).toBe(200);
  expect(api.lines.filter((line) => line.includes('"level":50'))).toEqual([]);
});

test("an aborted request body no longer counts against the client's limit", async () => {
  const bodyLimits = createBodyLimits({ perClient: 1 });
  await expect(bodyLimits.wait("a", () => Promise.reject(new Error("broke off")))).rejects.toThrow(
    "broke off",
  );
  expect(await bodyLimits.wait("a", async () => "read")).toBe("read");
});

import { Agent, createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createGuard } from "../../src/sdk/guard.ts";
import { selfSigned } from "../events/support/certificate.ts";
import { answering, httpText, type StubBehaviour, type StubService, startStub } from "./stub_service.ts";

const ALLOW = { decision: "allow", decision_reason: "authorized" };
const allowText = JSON.stringify(ALLOW);
const proof = '{"agent_id":"aa","opaque":[1,2]}';

let stub: StubService;
beforeEach(async () => {
  stub = await startStub(answering(200, ALLOW));
});
afterEach(() => stub.stop());

async function act(settings: { baseUrl?: string; timeoutMs?: number; agent?: Agent } = {}) {
  const guard = createGuard({ baseUrl: stub.url, apiKey: "dpz_key", ...settings });
  const action = vi.fn(() => "done");
  const run = await guard.run({ requiredScope: "data:read", proof }, action);
  expect(action).toHaveBeenCalledTimes(run.executed ? 1 : 0);
  return run.executed
    ? { outcome: "executed" as const }
    : { status: run.refusal.status, code: run.refusal.code, cause: run.record.cause };
}

function behaving(behaviour: (socket: Socket) => void): StubBehaviour {
  return (socket) => behaviour(socket);
}

function refusal(status: 403 | 503, code: string, cause: string) {
  return { status, code, cause };
}
const noAuthority = refusal(403, "no_authority_demonstrated", "bad_proof");
const noDecision = (cause: string) => refusal(503, "verification_unavailable", cause);
const executed = { outcome: "executed" };

describe("the enforcement table", () => {
  test.each<[string, StubBehaviour, object]>([
    ["200, allow", answering(200, ALLOW), executed],
    ["200, allow, and more members", answering(200, { ...ALLOW, valid: true, checks: [] }), executed],
    ["200, allow, not said to be JSON", answering(200, ALLOW, { "content-type": "text/plain" }), executed],
    [
      "200, allow, in chunks",
      behaving((socket) => {
        const parts = [allowText.slice(0, 9), allowText.slice(9)];
        const chunks = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`);
        socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunks.join("")}0\r\n\r\n`);
      }),
      executed,
    ],
    [
      "200, allow, ended by closing the connection",
      behaving((socket) => socket.end(`HTTP/1.1 200 OK\r\n\r\n${allowText}`)),
      executed,
    ],
    [
      "200, allow, after 100 Continue and 103 Early Hints",
      behaving((socket) =>
        socket.write(
          `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n${httpText(200, allowText)}`,
        ),
      ),
      executed,
    ],
    [
      "200, deny",
      answering(200, { decision: "deny", decision_reason: "delegation_revoked" }),
      refusal(403, "delegation_revoked", "deny"),
    ],
    ["200, deny without a reason", answering(200, { decision: "deny" }), refusal(403, "denied", "deny")],
    [
      "200, deny, beside words that sound better",
      answering(200, { decision: "deny", decision_reason: "not_delegated", valid: true, allow: true }),
      refusal(403, "not_delegated", "deny"),
    ],
    [
      "200, indeterminate",
      answering(200, { decision: "indeterminate", decision_reason: "revocation_state_unavailable" }),
      noDecision("indeterminate"),
    ],
    ...[
      "ALLOW",
      "Allow",
      "allow ",
      " allow",
      "allowed",
      "permit",
      "",
      true,
      1,
      null,
      ["allow"],
      { allow: true },
    ].map((decision): [string, StubBehaviour, object] => [
      `200, the unrecognized decision ${JSON.stringify(decision)}`,
      answering(200, { decision }),
      noDecision("unknown_decision"),
    ]),
    ["200, no decision", answering(200, { valid: true }), noDecision("unknown_decision")],
    ...[
      "",
      "allow",
      '"allow"',
      "null",
      `[${allowText}]`,
      allowText.slice(0, -1),
      `${allowText}x`,
      `\ufeff${allowText}`,
      '{"decision":"deny","decision":"allow"}',
      '{"decision":"allow","n":01}',
      '{"decision":"allow",}',
      "{'decision':'allow'}",
      "<html>allow</html>",
    ].map((body): [string, StubBehaviour, object] => [
      `200, the unparseable body ${JSON.stringify(body)}`,
      answering(200, body),
      noDecision("unparseable"),
    ]),
    [
      "200, a body that is not UTF-8",
      behaving((socket) => {
        const body = Buffer.concat([
          Buffer.from('{"decision":"allow","x":"'),
          Buffer.from([0xff]),
          Buffer.from('"}'),
        ]);
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
        socket.write(body);
      }),
      noDecision("unparseable"),
    ],
    ["400", answering(400, { error: { code: "invalid_challenge", message: "", status: 400 } }), noAuthority],
    ["400 that says allow", answering(400, ALLOW), noAuthority],
    ["400 with nothing in it", answering(400, ""), noAuthority],
    ...[401, 402, 403, 404, 409, 418, 429, 500, 502, 503, 504, 599].map(
      (status): [string, StubBehaviour, object] => [
        `${status}, even if it says allow`,
        answering(status, ALLOW),
        noDecision("unexpected_status"),
      ],
    ),
    ...[201, 202, 203, 204, 205, 206, 226, 299].map((status): [string, StubBehaviour, object] => [
      `${status}, which is not 200, even if it says allow`,
      answering(status, status === 204 ? "" : ALLOW, status === 204 ? { "content-length": "0" } : {}),
      noDecision("unexpected_status"),
    ]),
  ])("%s", async (_name, behaviour, expected) => {
    stub.respond(behaviour);
    expect(await act()).toEqual(expected);
    expect(stub.requests).toHaveLength(1);
  });

  test.each([301, 302, 303, 307, 308])("a redirect by %i is not followed", async (status) => {
    const other = await startStub(answering(200, ALLOW));
    stub.respond(answering(status, ALLOW, { location: `${other.url}/v1/service/verify` }));
    expect(await act()).toEqual(noDecision("unexpected_status"));
    expect(other.connections()).toBe(0);
    expect(stub.requests).toHaveLength(1);
    await other.stop();
  });
});

describe("no decision comes of", () => {
  const lengthOf = (text: string) => `content-length: ${text.length}\r\n\r\n`;

  test.each<[string, StubBehaviour]>([
    ["a connection closed at once", (socket) => socket.destroy()],
    ["a connection reset", (socket) => socket.resetAndDestroy()],
    ["a half-closed connection without an answer", (socket) => socket.end()],
    ["a half-closed connection in the status line", (socket) => socket.end("HTTP/1.1 200 O")],
    ["a half-closed connection in the headers", (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-le")],
    [
      "a half-closed connection before the end of the body",
      (socket) => socket.end(`HTTP/1.1 200 OK\r\n${lengthOf(`${allowText}    `)}${allowText}`),
    ],
    [
      "a half-closed connection before the last chunk",
      (socket) =>
        socket.end(
          `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${allowText.length.toString(16)}\r\n${allowText}\r\n`,
        ),
    ],
    ["what is not HTTP", (socket) => socket.end(allowText)],
    [
      "HTTP with a header too many",
      (socket) => socket.end(`HTTP/1.1 200 OK\r\nx: ${"y".repeat(40_000)}\r\n\r\n`),
    ],
    [
      "two lengths",
      (socket) => socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 3\r\n${lengthOf(allowText)}${allowText}`),
    ],
    [
      "a change to another protocol",
      (socket) =>
        socket.end(`HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n${allowText}`),
    ],
  ])("%s", async (_name, behaviour) => {
    stub.respond(behaviour);
    expect(await act()).toEqual(noDecision("network"));
    expect(stub.requests).toHaveLength(1);
  });

  test("nobody listening", async () => {
    const { url } = stub;
    await stub.stop();
    expect(await act({ baseUrl: url })).toEqual(noDecision("network"));
    stub = await startStub(answering(200, ALLOW));
  });

  test("a name that does not exist", async () => {
    expect(await act({ baseUrl: "https://service.invalid" })).toEqual(noDecision("network"));
  });

  test("TLS with a server that speaks none", async () => {
    stub.respond((socket) => socket.end(httpText(200, allowText)));
    expect(await act({ baseUrl: stub.url.replace("http:", "https:"), timeoutMs: 2_000 })).toMatchObject({
      status: 503,
    });
  });
});

describe("an answer's size", () => {
  const padded = (bytes: number) => {
    const empty = JSON.stringify({ ...ALLOW, pad: "" });
    return JSON.stringify({ ...ALLOW, pad: "x".repeat(bytes - empty.length) });
  };

  test("may be 256 KiB", async () => {
    stub.respond(answering(200, padded(256 * 1024)));
    expect(await act()).toEqual(executed);
  });

  test("may not be one byte more", async () => {
    stub.respond(answering(200, padded(256 * 1024 + 1)));
    expect(await act()).toEqual(noDecision("answer_too_large"));
  });

  test("ends the connection when it has no end", async () => {
    let sent = 0;
    const closed = new Promise<void>((resolve) => {
      stub.respond((socket) => {
        const chunk = " ".repeat(64 * 1024);
        socket.on("close", () => resolve());
        socket.on("drain", pour);
        function pour() {
          while (!socket.destroyed && socket.write(chunk)) sent += chunk.length;
        }
        socket.write("HTTP/1.1 200 OK\r\n\r\n");
        pour();
      });
    });
    expect(await act()).toEqual(noDecision("answer_too_large"));
    await closed;
    expect(sent).toBeLessThan(64 * 1024 * 1024);
  });
});

describe("the budget", () => {
  test.each<[string, StubBehaviour]>([
    ["a service that never answers", () => undefined],
    [
      "headers without a body",
      (socket) => void socket.write("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"),
    ],
    [
      "a body that comes drop by drop",
      (socket) => {
        const drops = [...httpText(200, allowText)];
        const timer = setInterval(() => {
          if (socket.destroyed || drops.length === 0) clearInterval(timer);
          else socket.write(drops.shift() ?? "");
        }, 20);
      },
    ],
    [
      "endless 102 Processing",
      (socket) => {
        const timer = setInterval(() => {
          if (socket.destroyed) clearInterval(timer);
          else socket.write("HTTP/1.1 102 Processing\r\n\r\n");
        }, 20);
      },
    ],
  ])("ends for %s, and so does the connection", async (_name, behaviour) => {
    const closed = new Promise<void>((resolve) => {
      stub.respond((socket, request) => {
        socket.on("close", () => resolve());
        behaviour(socket, request);
      });
    });
    expect(await act({ timeoutMs: 300 })).toEqual(noDecision("timeout"));
    await closed;
  });

  test.each([
    ["executes an allow whose last byte comes 9,999 ms after the question", 9_999, executed],
    ["refuses one that is not whole after 10,000 ms", 10_000, noDecision("timeout")],
  ])("by default %s", async (_name, elapsed, expected) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    try {
      const answer = httpText(200, allowText);
      const begun = new Promise<Socket>((resolve) => {
        stub.respond((socket) => socket.write(answer.slice(0, -5), () => resolve(socket)));
      });
      const asked = act();
      const socket = await begun;
      await vi.advanceTimersByTimeAsync(elapsed);
      if (!socket.destroyed) socket.write(answer.slice(-5));
      expect(await asked).toEqual(expected);
    } finally {
      vi.useRealTimers();
    }
  });

  test("refuses an allow that is read after it, when the process was held up", async () => {
    stub.respond((socket) => {
      socket.write(httpText(200, allowText));
    });
    const clock = vi.spyOn(performance, "now");
    const first = performance.now();
    clock.mockReturnValueOnce(first).mockReturnValue(first + 10_000);
    expect(await act()).toEqual(noDecision("timeout"));
    clock.mockReturnValue(first + 9_999).mockReturnValueOnce(first);
    expect(await act()).toEqual(executed);
    clock.mockRestore();
  });
});

describe("over TLS", () => {
  test("a certificate that nobody vouches for, or of another name, comes to no decision; a trusted one is executed", async () => {
    const { cert, key } = await selfSigned(["localhost"]);
    const server = createSecureServer({ cert, key }, (_request, response) => response.end(allowText));
    server.listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    const trusting = new Agent({ ca: cert });
    const byName = `https://localhost:${port}`;
    expect(await act({ baseUrl: byName })).toEqual(noDecision("network"));
    expect(await act({ baseUrl: `https://127.0.0.1:${port}`, agent: trusting })).toEqual(
      noDecision("network"),
    );
    expect(await act({ baseUrl: byName, agent: trusting })).toEqual(executed);
    trusting.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
});

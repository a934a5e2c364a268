import { Agent, createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { selfSigned } from "../events/support/certificate.ts";
import { ALLOW, allowText, enforcementWorld, executed, noDecision } from "./enforced.ts";
import { answering, httpText, type StubBehaviour, startStub } from "./stub_service.ts";

const world = enforcementWorld();
const { act } = world;

describe("the guard has no decision after", () => {
  const lengthOf = (text: string) => `content-length: ${text.length}\r\n\r\n`;

  test.each<[string, StubBehaviour]>([
    ["a connection closed immediately", (socket) => socket.destroy()],
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
    ["an answer that is not HTTP", (socket) => socket.end(allowText)],
    [
      "HTTP with too many headers",
      (socket) => socket.end(`HTTP/1.1 200 OK\r\nx: ${"y".repeat(40_000)}\r\n\r\n`),
    ],
    [
      "an answer with two lengths",
      (socket) => socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 3\r\n${lengthOf(allowText)}${allowText}`),
    ],
    [
      "a change to a different protocol",
      (socket) =>
        socket.end(`HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n${allowText}`),
    ],
  ])("%s", async (_name, behaviour) => {
    world.stub.respond(behaviour);
    expect(await act()).toEqual(noDecision("network"));
    expect(world.stub.requests).toHaveLength(1);
  });

  test("a refused connection", async () => {
    const { url } = world.stub;
    await world.stub.stop();
    expect(await act({ baseUrl: url })).toEqual(noDecision("network"));
    world.stub = await startStub(answering(200, ALLOW));
  });

  test("a host name that does not exist", async () => {
    expect(await act({ baseUrl: "https://service.invalid" })).toEqual(noDecision("network"));
  });

  test("TLS with a server that does not support it", async () => {
    world.stub.respond((socket) => socket.end(httpText(200, allowText)));
    expect(await act({ baseUrl: world.stub.url.replace("http:", "https:"), timeoutMs: 2_000 })).toMatchObject(
      {
        status: 503,
      },
    );
  });
});

describe("the limit on the response size", () => {
  const padded = (bytes: number) => {
    const empty = JSON.stringify({ ...ALLOW, pad: "" });
    return JSON.stringify({ ...ALLOW, pad: "x".repeat(bytes - empty.length) });
  };

  test("accepts a response of 256 KiB", async () => {
    world.stub.respond(answering(200, padded(256 * 1024)));
    expect(await act()).toEqual(executed);
  });

  test("rejects a response of one byte over 256 KiB", async () => {
    world.stub.respond(answering(200, padded(256 * 1024 + 1)));
    expect(await act()).toEqual(noDecision("answer_too_large"));
  });

  test("closes the connection if a response never ends", async () => {
    let sent = 0;
    const closed = new Promise<void>((resolve) => {
      world.stub.respond((socket) => {
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

describe("the time limit", () => {
  test.each<[string, StubBehaviour]>([
    ["a service that never answers", () => undefined],
    [
      "headers without a body",
      (socket) => void socket.write("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"),
    ],
    [
      "a body that arrives byte by byte",
      (socket) => {
        const drops = [...httpText(200, allowText)];
        const timer = setInterval(() => {
          if (socket.destroyed || drops.length === 0) {
            clearInterval(timer);
          } else {
            socket.write(drops.shift() ?? "");
          }
        }, 20);
      },
    ],
    [
      "endless 102 Processing",
      (socket) => {
        const timer = setInterval(() => {
          if (socket.destroyed) {
            clearInterval(timer);
          } else {
            socket.write("HTTP/1.1 102 Processing\r\n\r\n");
          }
        }, 20);
      },
    ],
  ])("aborts the call and closes its connection for %s", async (_name, behaviour) => {
    const closed = new Promise<void>((resolve) => {
      world.stub.respond((socket, request) => {
        socket.on("close", () => resolve());
        behaviour(socket, request);
      });
    });
    expect(await act({ timeoutMs: 300 })).toEqual(noDecision("timeout"));
    await closed;
  });

  test.each([
    ["lets the guard execute an allow decision whose last byte arrives after 9,999 ms", 9_999, executed],
    ["makes the guard refuse an answer that is incomplete after 10,000 ms", 10_000, noDecision("timeout")],
  ])("by default %s", async (_name, elapsed, expected) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    try {
      const answer = httpText(200, allowText);
      const begun = new Promise<Socket>((resolve) => {
        world.stub.respond((socket) => socket.write(answer.slice(0, -5), () => resolve(socket)));
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

  test("makes the guard refuse an allow decision that is read too late because the process was blocked", async () => {
    world.stub.respond((socket) => {
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
  test("the guard trusts only a valid certificate with the right name, and otherwise has no decision", async () => {
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

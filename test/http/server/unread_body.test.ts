import { EventEmitter } from "node:events";
import type { IncomingMessage } from "node:http";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createUnreadBodies, type UnreadBodies } from "../../../src/http/server/unread_body.ts";

const MEBIBYTE = Buffer.alloc(1_048_576);

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** A request whose body arrives when the test emits `data`. Like Node's, it closes once it is destroyed. */
class ArrivingRequest extends EventEmitter {
  complete = false;
  destroyed = false;

  resume(): this {
    return this;
  }

  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }
}

function discarded(unread = createUnreadBodies(), client = "192.0.2.1") {
  const request = new ArrivingRequest();
  return { request, end: unread.discard(request as unknown as IncomingMessage, client) };
}

describe("discarding the rest of a request", () => {
  test("aborts a request that pauses for 5 seconds", async () => {
    const { request, end } = discarded();
    for (const seconds of [4.999, 4.999]) {
      vi.advanceTimersByTime(seconds * 1_000);
      request.emit("data", Buffer.alloc(1));
    }
    vi.advanceTimersByTime(4_999);
    expect(request.destroyed).toBe(false);
    vi.advanceTimersByTime(1);
    expect(request.destroyed).toBe(true);
    await end;
  });

  test("aborts a request that has not ended after 30 seconds", async () => {
    const { request, end } = discarded();
    for (let seconds = 0; seconds < 29; seconds += 1) {
      vi.advanceTimersByTime(1_000);
      request.emit("data", Buffer.alloc(1));
    }
    vi.advanceTimersByTime(999);
    expect(request.destroyed).toBe(false);
    vi.advanceTimersByTime(1);
    expect(request.destroyed).toBe(true);
    await end;
  });

  test("aborts a request after 64 MiB", async () => {
    const { request, end } = discarded();
    for (let sent = 0; sent < 64; sent += 1) request.emit("data", MEBIBYTE);
    expect(request.destroyed).toBe(false);
    request.emit("data", Buffer.alloc(1));
    expect(request.destroyed).toBe(true);
    await end;
  });

  test("leaves no timer after the request has ended", async () => {
    const { request, end } = discarded();
    request.emit("end");
    await end;
    expect([request.destroyed, vi.getTimerCount()]).toEqual([false, 0]);
  });

  test.each([
    ["16 requests of one client", 16, () => "192.0.2.1"],
    ["64 requests of all clients", 64, (n: number) => `192.0.2.${n}`],
  ])("accepts at most %s at a time", async (_, most, clientOf) => {
    const unread = createUnreadBodies();
    const fill = (count: number) => Array.from({ length: count }, (_, n) => discarded(unread, clientOf(n)));
    const isFull = (bodies: UnreadBodies) => discarded(bodies, clientOf(0)).end === undefined;
    for (const round of [1, 2]) {
      const running = fill(most);
      expect(
        running.filter(({ end }) => end === undefined),
        `round ${round}`,
      ).toEqual([]);
      expect(isFull(unread)).toBe(true);
      for (const { request } of running) request.emit("end");
      await Promise.all(running.map(({ end }) => end));
    }
  });
});

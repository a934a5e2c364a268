import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { startServer } from "../../src/http/server/server.ts";
import { connectRaw, type RawClient } from "./support/raw_client.ts";

const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function raw(port: number, options?: Parameters<typeof connectRaw>[1]): Promise<RawClient> {
  const client = await connectRaw(port, options);
  ends.push(async () => client.socket.destroy());
  return client;
}

describe("a connection that sends requests without waiting for responses", () => {
  async function holdBack(pending: number) {
    const held: ServerResponse[] = [];
    let isHeldBack = true;
    const server = await startServer(
      (_, response) => {
        held.push(response);
        if (!isHeldBack) response.end("ok");
      },
      { host: "127.0.0.1", port: 0, limits: { pending } },
    );
    ends.push(() => server.stop(0));
    const release = () => {
      isHeldBack = false;
      for (const response of held) response.end("ok");
    };
    return { port: server.port, held, release };
  }

  test("has its requests served one after the other up to its limit, then gets 429 and is closed", async () => {
    const { port, held, release } = await holdBack(3);
    const client = await raw(port, { send: GET.repeat(1_000) });
    await pause();
    expect(held).toHaveLength(1);
    release();
    const answer = await client.closed;
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual([...ok(3), "HTTP/1.1 429"]);
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
    expect(answer).toContain('"code":"rate_limited"');
    expect(held).toHaveLength(3);
  });

  test("has none of its requests served after it is closed", async () => {
    const { port, held, release } = await holdBack(3);
    const client = await raw(port, { send: GET.repeat(3) });
    await pause();
    client.socket.destroy();
    await expect.poll(() => held[0]?.destroyed).toBe(true);
    release();
    await pause();
    expect(held).toHaveLength(1);
  });

  test("has nothing more read above its limit, whatever the client sends", async () => {
    const { port, held } = await holdBack(3);
    const body = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    const client = await raw(port, { send: body.repeat(100) });
    await pause();
    held[0]?.req.resume();
    client.socket.write(GET.repeat(1_000_000));
    await pause();
    expect(held[0]?.req.socket.bytesRead).toBeLessThan(1_000_000);
    expect(held).toHaveLength(1);
  });

  test("works within its limit, and does not affect other connections", async () => {
    const { port, held, release } = await holdBack(3);
    const first = await raw(port, { send: GET.repeat(3) });
    await expect.poll(() => held.length).toBe(1);
    const second = await raw(port, { send: GET });
    await expect.poll(() => held.length).toBe(2);
    release();
    await second.until(/ok/);
    for (let answered = 3; answered <= 9; answered += 2) {
      const answers = await first.until(new RegExp(`(200 OK.*){${answered}}ok$`, "s"));
      expect(answers.match(/200 OK/g)).toHaveLength(answered);
      first.socket.write(GET.repeat(2));
    }
  });

  const pause = () => new Promise((resolve) => setTimeout(resolve, 300));
  const ok = (times: number) => Array.from({ length: times }, () => "HTTP/1.1 200");
});

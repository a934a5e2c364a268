import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startVault, type TestVault } from "../fixture.ts";
import { call } from "./caller_support.ts";

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

async function isEnded(socket: Socket, seconds: number): Promise<boolean> {
  socket.on("error", () => {}).resume();
  await Promise.race([once(socket, "close"), sleep(seconds * 1000)]);
  const { closed } = socket;
  socket.destroy();
  return closed;
}

async function openConnection(): Promise<Socket> {
  const socket = connectTls({ port: vault.port, host: "localhost", ...vault.api });
  await once(socket, "secureConnect");
  return socket;
}

const HEAD = `POST /v1/keys HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nidempotency-key: 12345678\r\n`;

/**
 * Unfinished input, and the maximum number of seconds that the vault waits for the rest. This is the deadline
 * plus the 30 s between two checks.
 */
const ENDLESS = {
  "a handshake": { seconds: 15, begin: async () => connect({ port: vault.port, host: "localhost" }) },
  "a head": {
    seconds: 50,
    begin: async () => {
      const socket = await openConnection();
      socket.write(HEAD);
      return socket;
    },
  },
  "a body": {
    seconds: 50,
    begin: async () => {
      const socket = await openConnection();
      socket.write(`${HEAD}content-length: 100\r\n\r\n{`);
      return socket;
    },
  },
};

test("the vault closes a connection whose handshake, headers or body stays unfinished, without affecting others", {
  timeout: 90_000,
}, async () => {
  const held = Object.entries(ENDLESS).map(async ([what, { seconds, begin }]) => {
    expect(await isEnded(await begin(), seconds), what).toBe(true);
  });
  expect((await call(`${vault.url}/readyz`, vault.api)).status).toBe(200);
  await Promise.all(held);
});

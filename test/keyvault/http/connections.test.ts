import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "../../../keyvault/config.ts";
import { createHome, readIdentity, startVault, type TestVault } from "../fixture.ts";
import { type Client, call } from "./caller_support.ts";

const MOST = 40;
const PATIENTLY = { timeout: 20_000 };

let vault: TestVault;
let api: Client;
const sockets: Socket[] = [];

beforeAll(async () => {
  const home = await createHome();
  home.config = loadConfig({
    ...home.environment,
    KEYVAULT_MAX_CONNECTIONS: String(MOST),
    KEYVAULT_HANDSHAKE_RATE: "0",
  });
  vault = await startVault(home);
  api = readIdentity(home, "api");
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await vault.close();
});

/** Opens a connection that sends nothing, by default from an address that no other client uses. */
async function sayNothing(localAddress = "127.0.0.2"): Promise<Socket> {
  const socket = connect({ port: vault.port, host: "127.0.0.1", localAddress });
  sockets.push(socket);
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

test("unfinished handshakes of one address use at most a quarter of the connections", async () => {
  for (let opened = 0; opened < 2 * MOST; opened += 1) await sayNothing();
  await expect.poll(() => sockets.filter(({ closed }) => !closed).length, PATIENTLY).toBe(MOST / 4);
  const answer = await call(`https://127.0.0.1:${vault.port}/readyz`, api);
  expect(answer.status).toBe(200);
});

test.each([
  ["disconnects", (socket: Socket) => void socket.destroy()],
  ["sends bytes that are not a handshake", (socket: Socket) => void socket.write("GET / HTTP/1.1\r\n\r\n")],
])("an address that %s during its handshakes may start the same number of new handshakes", async (_, end) => {
  for (let round = 0; round < 3; round += 1) {
    const held = sockets.filter(({ closed }) => !closed);
    for (const socket of held) end(socket);
    await expect.poll(() => held.every(({ closed }) => closed), PATIENTLY).toBe(true);
    const holds = async () => {
      await sayNothing();
      await sleep(20);
      return sockets.filter(({ closed }) => !closed).length;
    };
    await expect.poll(holds, { ...PATIENTLY, interval: 1 }).toBe(MOST / 4);
  }
});

test("connections that have completed their handshake do not count as unfinished handshakes", async () => {
  const open: TLSSocket[] = [];
  for (let opened = 0; opened < MOST / 2; opened += 1) {
    const socket = connectTls({ port: vault.port, host: "localhost", ...api });
    await once(socket, "secureConnect");
    open.push(socket);
  }
  expect((await call(`${vault.url}/readyz`, api)).status).toBe(200);
  expect(open.some(({ destroyed }) => destroyed)).toBe(false);
  for (const socket of open) socket.destroy();
});

test("unfinished handshakes of many addresses do not prevent other clients from connecting", async () => {
  for (const socket of sockets) socket.destroy();
  for (let opened = 0; opened < 2 * MOST; opened += 1) {
    const address = `127.0.0.${3 + (opened % 8)}`;
    await sayNothing(address);
  }
  await expect.poll(() => sockets.filter(({ closed }) => !closed).length, PATIENTLY).toBe(MOST);
  for (let time = 0; time < 2 * MOST; time += 1) {
    expect((await call(`https://127.0.0.1:${vault.port}/readyz`, api)).status).toBe(200);
  }
  for (const socket of sockets) socket.destroy();
});

test("one certificate uses at most three quarters of the connections", async () => {
  const open: TLSSocket[] = [];
  const begin = async () => {
    const socket = connectTls({ port: vault.port, host: "127.0.0.1", servername: "localhost", ...api });
    socket.on("error", () => {}).write("GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n");
    const isOpen = await Promise.race([
      once(socket, "data").then(() => true),
      once(socket, "close").then(() => false),
    ]).catch(() => false);
    if (isOpen) open.push(socket);
    return isOpen;
  };
  const most = (MOST * 3) / 4;
  for (let opened = 0; opened < most; opened += 1) expect(await begin()).toBe(true);
  expect(await begin()).toBe(false);
  const admin = vault.admin;
  expect((await call(`${vault.url}/v1/status`, admin)).status).toBe(200);
  for (const socket of open.splice(0)) socket.destroy();
  await expect.poll(() => begin(), PATIENTLY).toBe(true);
  for (const socket of open) socket.destroy();
});

test("the health port answers probes however many connections and requests other clients open", async () => {
  const port = vault.healthPort ?? 0;
  const open: Socket[] = [];
  const begin = async (text: string) => {
    const socket = connect({ port, host: "127.0.0.1" });
    open.push(socket);
    socket.on("error", () => {}).resume();
    await once(socket, "connect");
    if (text !== "") socket.write(text);
    return socket;
  };
  const greedy = await begin("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(5_000));
  await expect.poll(() => greedy.closed, PATIENTLY).toBe(true);
  for (let opened = 0; opened < 300; opened += 1) await begin("");
  await expect.poll(() => open.filter(({ closed }) => !closed).length, PATIENTLY).toBe(250);
  expect((await fetch(`http://127.0.0.1:${port}/livez`)).status).toBe(200);
  for (const socket of open) socket.destroy();
});

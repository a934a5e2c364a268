import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createVaultClient } from "../../src/vault/client.ts";
import { readCredentials, watchCredentials } from "../../src/vault/credentials.ts";
import { createHome, readIdentity, type VaultHome } from "../keyvault/fixture.ts";
import { until } from "../support/process.ts";

const EVERY_MS = 5_000;

let home: VaultHome;
let folder: string;

beforeAll(async () => {
  home = await createHome();
});
afterAll(() => home.remove());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "vault-watch-"));
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(async () => {
  vi.useRealTimers();
  await rm(folder, { recursive: true });
});

/** Writes a client's files. `changed` is another text of the same authority. */
async function written() {
  const files = { ca: join(folder, "ca.pem"), cert: join(folder, "api.pem"), key: join(folder, "api.key") };
  const identity = readIdentity(home, "api");
  for (const name of ["ca", "cert", "key"] as const) await writeFile(files[name], identity[name]);
  return { files, first: await readCredentials(files), changed: `${identity.ca}\n` };
}

/** Watches a client's files, and counts how often it applies each authority. */
async function watched() {
  const { files, first, changed } = await written();
  const applied: string[] = [];
  const stop = watchCredentials(files, first, ({ ca }) => applied.push(String(ca)));
  /** Lets time pass, and waits until the files would have been read. */
  const pass = async (ms: number) => {
    await vi.advanceTimersByTimeAsync(ms);
    for (let reads = 0; reads < 3; reads += 1) await readCredentials(files).catch(() => {});
  };
  return { files, changed, applied, stop, pass };
}

test("watchCredentials applies a changed authority once, at the next look after 5 s", async () => {
  const { files, changed, applied, stop, pass } = await watched();
  await pass(EVERY_MS);
  await writeFile(files.ca, changed);
  await pass(EVERY_MS - 1);
  expect(applied).toEqual([]);
  await pass(1);
  await until("a change", () => applied.length > 0);
  await pass(2 * EVERY_MS);
  expect(applied).toEqual([changed]);
  stop();
  expect(vi.getTimerCount()).toBe(0);
});

test("watchCredentials ignores a missing file, and applies it when it is back", async () => {
  const { files, changed, applied, stop, pass } = await watched();
  await rm(files.ca);
  await pass(2 * EVERY_MS);
  expect(applied).toEqual([]);
  await writeFile(files.ca, changed);
  await pass(EVERY_MS);
  await until("a change", () => applied.length > 0);
  stop();
});

test("the vault client finishes a running call after it has reloaded its files, and uses only a new connection later", async () => {
  const { files, first, changed } = await written();
  let held: ServerResponse | undefined;
  let others = 0;
  const { cert, key } = readIdentity(home, "server");
  const server = createServer({ cert, key }, (_, response) => {
    if (held === undefined) {
      held = response;
    } else {
      others += 1;
      response.end("{}");
    }
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = createVaultClient({ url, ...first, files, connections: 1 });
  const calls = [client.health()];
  await until("the first call", () => held !== undefined);
  await writeFile(files.ca, changed);
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  await until("a call on another connection", () => {
    calls.push(client.health());
    return others > 0;
  });
  const former = held?.socket;
  held?.end("{}");
  await Promise.all(calls);
  await until("the former connection is closed", () => former?.closed === true);
  await client.close();
  expect(vi.getTimerCount()).toBe(0);
  server.close().closeAllConnections();
});

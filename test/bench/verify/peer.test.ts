import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../../src/dev/process/ports.ts";
import { startPeer } from "./peer.ts";

const LISTEN = `console.log("up"); require("http").createServer((_, answer) => answer.end("here")).listen(process.env.PORT, "127.0.0.1")`;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-peer-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("a peer is told its port, is waited for, and ends with all that the shell started", async () => {
  const port = await freePort();
  const peer = await startPeer(`node -e '${LISTEN}' & wait`, { PORT: String(port) }, folder);
  const url = `http://127.0.0.1:${port}`;
  expect(await (await fetch(url)).text()).toBe("here");
  expect(await readFile(join(folder, "peer.log"), "utf8")).toBe("up\n");
  await peer.stop();
  await peer.stop();
  await expect.poll(() => fetch(url).catch(() => "gone")).toBe("gone");
});

test("a peer that ends instead of listening is said", async () => {
  const port = String(await freePort());
  const started = startPeer("exit 3", { PORT: port }, folder);
  await expect(started).rejects.toThrow("The peer ended while starting (exit status 3)");
});

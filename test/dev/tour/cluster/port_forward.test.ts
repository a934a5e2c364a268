import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Forward, forwardPort } from "../../../../src/dev/tour/cluster/port_forward.ts";
import { isRunning, until } from "../../../support/process.ts";

/** Replaces kubectl. Listens on the given port, records its arguments, and exits on request. */
const FAKE = `#!${process.execPath}
const fs = require("node:fs");
const args = process.argv.slice(2);
if (args.includes("refused")) { console.error("error: services is forbidden"); process.exit(1); }
const [local, remote] = args.find((arg) => /^\\d*:/.test(arg)).split(":");
const server = require("node:http").createServer((request, response) => {
  response.end(String(process.pid));
  if (request.url === "/end") process.exit(1);
});
server.listen(Number(local), "127.0.0.1", () => {
  fs.appendFileSync(__filename + ".calls", JSON.stringify({ pid: process.pid, args }) + "\\n");
  console.log("Forwarding from 127.0.0.1:" + server.address().port + " -> " + remote);
});
`;
const target = { namespace: "deputize-system", name: "service/deputize-api", port: "http" };
let folder: string;
let program: string;
let forward: Forward | undefined;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-forward-"));
  program = join(folder, "kubectl.cjs");
  await writeFile(program, FAKE);
  await chmod(program, 0o755);
});

afterEach(async () => {
  await forward?.close();
  forward = undefined;
  await rm(folder, { recursive: true, force: true });
});

const ask = (path: string) => fetch(`${forward?.url}${path}`).then((response) => response.text());
const calls = async () =>
  (await readFile(`${program}.calls`, "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

test("forwardPort forwards a free loopback port until the forward is closed", async () => {
  forward = await forwardPort(["--context=c"], target, program);
  const pid = Number(await ask("/"));
  expect(await calls()).toEqual([
    {
      pid,
      args: [
        "port-forward",
        "--namespace=deputize-system",
        "--address=127.0.0.1",
        "service/deputize-api",
        ":http",
        "--context=c",
      ],
    },
  ]);
  await forward.close();
  expect(isRunning(pid)).toBe(false);
  await expect(ask("/")).rejects.toThrow();
});

test("forwardPort restarts a stopped forward on the same port", async () => {
  forward = await forwardPort([], target, program);
  const { port } = new URL(forward.url);
  await ask("/end").catch(() => undefined);
  await until("the forward runs again", async () => (await calls()).length === 2);
  expect((await calls()).at(-1).args).toContain(`${port}:http`);
  expect(await ask("/")).toBe(String((await calls()).at(-1).pid));
});

test("forwardPort reports kubectl's message if the forward cannot start", async () => {
  await expect(forwardPort([], { ...target, name: "refused" }, program)).rejects.toThrow(
    "kubectl port-forward refused ended: error: services is forbidden",
  );
});

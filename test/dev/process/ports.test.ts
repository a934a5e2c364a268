import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { checkFree, freePort } from "../../../src/dev/process/ports.ts";

test("a free port is one that no outgoing connection is given", async () => {
  const ports = await Promise.all(Array.from({ length: 50 }, freePort));
  expect(new Set(ports).size).toBe(ports.length);
  for (const port of ports) expect(port).toBeLessThan(32_768);
  for (const port of ports) expect(port).toBeGreaterThan(1_023);
  const server = createServer().listen(ports[0], "127.0.0.1");
  await once(server, "listening");
  await expect(checkFree({ port: ports[0] ?? 0, setting: "--port" })).rejects.toThrow(/is in use/);
  server.close();
});

/** So many that ports drawn by chance would hardly ever be all different. */
const PROCESSES = 16;

test("processes that ask at the same time are given ports of their own", async () => {
  const program = `const { freePort } = await import(${JSON.stringify(new URL("../../../src/dev/process/ports.ts", import.meta.url).href)});
    for (let n = 0; n < 16; n += 1) console.log(await freePort());`;
  const given = await Promise.all(
    Array.from({ length: PROCESSES }, () =>
      promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program]),
    ),
  );
  const ports = given.flatMap(({ stdout }) => stdout.trim().split("\n"));
  expect(ports).toHaveLength(PROCESSES * 16);
  expect(new Set(ports).size).toBe(ports.length);
});

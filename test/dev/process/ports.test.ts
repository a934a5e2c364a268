import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { checkFree, freePort } from "../../../src/dev/process/ports.ts";

test("freePort returns a port outside the range for outgoing connections", async () => {
  const ports = await Promise.all(Array.from({ length: 50 }, freePort));
  expect(new Set(ports).size).toBe(ports.length);
  for (const port of ports) expect(port).toBeLessThan(32_768);
  for (const port of ports) expect(port).toBeGreaterThan(1_023);
  const server = createServer().listen(ports[0], "127.0.0.1");
  await once(server, "listening");
  await expect(checkFree({ port: ports[0] ?? 0, setting: "--port" })).rejects.toThrow(/is in use/);
  server.close();
});

test("freePort gives concurrent processes different ports, even if both try the same port first", async () => {
  const program = `Object.defineProperty(process, "pid", { value: 7 });
    const { freePort } = await import(${JSON.stringify(new URL("../../../src/dev/process/ports.ts", import.meta.url).href)});
    console.log(JSON.stringify(await Promise.all(Array.from({ length: 16 }, freePort))));
    process.stdin.resume();`;
  const processes = [0, 1, 2].map(() => spawn(process.execPath, ["--input-type=module", "--eval", program]));
  const given = await Promise.all(
    processes.map(async ({ stdout }) => (await once(createInterface({ input: stdout }), "line")) as [string]),
  );
  for (const { stdin } of processes) stdin.end();
  await Promise.all(processes.map((one) => once(one, "close")));
  expect(new Set(given.flatMap(([line]) => JSON.parse(line) as number[])).size).toBe(3 * 16);
});

import { once } from "node:events";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { checkFree, freePort } from "../../src/dev/ports.ts";

test("a free port is one that no outgoing connection is given", async () => {
  const ports = await Promise.all(Array.from({ length: 50 }, freePort));
  for (const port of ports) expect(port).toBeLessThan(32_768);
  for (const port of ports) expect(port).toBeGreaterThan(1_023);
  const server = createServer().listen(ports[0], "127.0.0.1");
  await once(server, "listening");
  await expect(checkFree({ port: ports[0] ?? 0, setting: "--port" })).rejects.toThrow(/is in use/);
  server.close();
});

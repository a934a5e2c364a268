import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { z } from "zod";
import { startServer } from "../../../src/http/server/server.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { route } from "../../../src/route.ts";
import { createBareApp } from "../../support/bare_app.ts";

/** The body of each call. Its decoded form needs another 20 KiB. */
const BODY = Buffer.alloc(16_384, "a");

const measured = route({
  id: "measure",
  method: "POST",
  path: "/measured",
  summary: "Measure a body",
  access: "public",
  body: z.any() as z.ZodType<Buffer>,
  bodyForm: "raw",
  answer: { status: 200, schema: z.object({ numbers: z.number() }), description: "Its length" },
  errors: [],
  handle: async ({ body }) => {
    const numbers = Array.from(body.subarray(0, 600), (value, place) => ({ value, place }));
    await new Promise((resolve) => setImmediate(resolve));
    return { body: { numbers: numbers.length } };
  },
});

const app = createBareApp({ routes: [measured], metrics: createMetrics() });
const { port } = await startServer(app, { host: "127.0.0.1", port: 0 });
const sockets = Array.from({ length: 16 }, () => connect({ port, host: "127.0.0.1", noDelay: true }));
const HEAD = Buffer.from(
  `POST /measured HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n`,
);

export default async function calls(): Promise<void> {
  await Promise.all(sockets.map(call));
}

async function call(socket: Socket): Promise<void> {
  socket.write(Buffer.concat([HEAD, BODY]));
  const [answer] = (await once(socket, "data")) as [Buffer];
  if (!answer.includes('{"numbers":600}')) throw new Error(answer.toString("utf8"));
}

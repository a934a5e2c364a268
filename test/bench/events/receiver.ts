import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { nowMs } from "./load.ts";

/** Webhook receivers. Each has a number and a separate path. */
export type BenchReceivers = {
  url(number: number): string;
  /** Time at which each event first arrived, by event number. */
  arrived: Map<number, number>;
  /** Makes exactly those receivers hang for which `hangs` returns true. Responds to all waiting calls. */
  hang(hangs: (number: number) => boolean): void;
  close(): Promise<void>;
};

/** Starts the receivers. At first all receivers accept everything. */
export async function startReceivers(): Promise<BenchReceivers> {
  const arrived = new Map<number, number>();
  const hanging = new Set<ServerResponse>();
  let hangs = (_: number): boolean => false;
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const event = Number(JSON.parse(body).request_id);
    if (!arrived.has(event)) arrived.set(event, nowMs());
    if (hangs(Number(request.url?.slice(1)))) {
      hanging.add(response);
      response.once("close", () => hanging.delete(response));
    } else {
      response.writeHead(204).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: (number) => `http://127.0.0.1:${port}/${number}`,
    arrived,
    hang(next) {
      hangs = next;
      for (const response of hanging) response.writeHead(204).end();
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

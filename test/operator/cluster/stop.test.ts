import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { createLog } from "../../../src/log.ts";
import { openCluster } from "../../../src/operator/cluster/open_cluster.ts";
import type { Platform } from "../../../src/operator/kinds.ts";
import type { Resources } from "../../../src/operator/resources.ts";

const STOP_MS = 300;
const metadata = { name: "shop", namespace: "default", uid: "1", resourceVersion: "5" };
const object = { metadata, spec: {} };
const emptyList = { metadata: { resourceVersion: "7" }, items: [] };

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

describe("stopping the resources of a cluster", () => {
  const server = createServer((request, response) => handler(request, response));
  const isWatch = ({ url = "" }: IncomingMessage) => url.includes("watch=true");
  let handler: Handler;
  let resources: Resources;
  let credentials: () => Promise<{ headers: Record<string, string>; tls: object }>;

  beforeEach(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    credentials = async () => ({ headers: {}, tls: {} });
    resources = await openCluster({
      access: {
        server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        namespace: undefined,
        credentials: () => credentials(),
        forget: () => undefined,
      },
      namespace: "deputize-system",
      clock: systemClock,
      log: createLog("silent", "test"),
      times: { stopMs: STOP_MS },
    });
  });

  afterEach(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });

  const write = () => resources.writeStatus({ ...object, kind: "Platform" } as unknown as Platform, {});
  const failure = (work: Promise<unknown>): Promise<Error> =>
    work.then(
      () => Promise.reject(new Error("it succeeded")),
      (error) => error as Error,
    );

  /** Sets the handler for the next calls. Resolves once this many calls have arrived. */
  function arrived(count: number, given: Handler): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    let left = count;
    handler = (request, response) => {
      given(request, response);
      left -= 1;
      if (left === 0) resolve();
    };
    return promise;
  }

  async function stopMs(): Promise<number> {
    const start = performance.now();
    await resources.stop();
    return performance.now() - start;
  }

  const faults: [string, Handler][] = [
    ["no call is answered", () => undefined],
    ["lists are cut off in the middle", (_, response) => void response.writeHead(200).write('{"items":[')],
    [
      "the cluster asks to wait",
      (_, response) => void response.writeHead(429, { "retry-after": "20" }).end("{}"),
    ],
    ["every call fails", (_, response) => void response.writeHead(500).end("{}")],
  ];
  test.each(faults)("aborts startup while %s", async (_, given) => {
    const calls = arrived(5, given);
    const start = failure(resources.start());
    await calls;
    expect(await stopMs()).toBeLessThan(STOP_MS);
    expect((await start).message).toBe("the copy of the cluster was stopped before it was complete");
  });

  test("aborts startup while the credentials do not arrive or cannot be read", async () => {
    for (const given of [new Promise<never>(() => undefined), Promise.reject(new Error("no token file"))]) {
      given.catch(() => undefined);
      credentials = () => given;
      const start = failure(resources.start());
      expect(await stopMs()).toBeLessThan(STOP_MS);
      expect((await start).message).toBe("the copy of the cluster was stopped before it was complete");
    }
  });

  test("aborts watches that have received no answer, or only part of a line", async () => {
    const watches = arrived(10, (request, response) => {
      if (!isWatch(request)) {
        response.writeHead(200).end(JSON.stringify(emptyList));
      } else if (request.url?.includes("agents")) {
        response.writeHead(200).write('{"type":');
      } else if (!request.url?.includes("secrets")) {
        response.writeHead(200).flushHeaders();
      }
    });
    await resources.start();
    await watches;
    expect(await stopMs()).toBeLessThan(STOP_MS);
  });

  test("finishes Events and writes in progress", async () => {
    const bodies: string[] = [];
    const read = arrived(1, (request, response) => {
      if (request.method !== "GET") bodies.push(request.method ?? "");
      setTimeout(() => response.end(JSON.stringify(object)), 30);
    });
    const writing = write();
    const shop = { ...object, kind: "Platform" } as unknown as Platform;
    resources.recordEvent(shop, { type: "Normal", reason: "Active", message: "all is well" });
    await read;
    expect(await stopMs()).toBeLessThan(STOP_MS);
    await writing;
    expect(bodies.sort()).toEqual(["PATCH", "POST"]);
  });

  test("waits for a limited time for unanswered writes and Events, then gives them up", async () => {
    const calls = arrived(2, () => undefined);
    const writing = failure(write());
    const shop = { ...object, kind: "Platform" } as unknown as Platform;
    for (let count = 0; count < 100; count += 1) {
      resources.recordEvent(shop, { type: "Normal", reason: "Active", message: "all is well" });
    }
    await calls;
    const took = await stopMs();
    expect(took).toBeGreaterThanOrEqual(STOP_MS - 10);
    expect(took).toBeLessThan(STOP_MS + 700);
    expect((await writing).message).toMatch(/^get platforms: /);
    expect((await failure(write())).message).toBe("get platforms: Aborted");
    expect(await stopMs()).toBeLessThan(STOP_MS);
  });
});

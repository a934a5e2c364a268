import { fork } from "node:child_process";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import autocannon from "autocannon";
import { pino } from "pino";
import { z } from "zod";
import { systemClock } from "../../src/clock.ts";
import { ApiError } from "../../src/errors.ts";
import { createApp } from "../../src/http/app.ts";
import { MAX_HEADER_BYTES } from "../../src/http/server/server.ts";
import { createMetrics } from "../../src/metrics.ts";
import { type Route, route } from "../../src/route.ts";
import { createRecord } from "./results/record.ts";
import { report } from "./results/tables.ts";

/**
 * Measures the cost of HTTP handling for a frequent call. It compares a trivial `api_key` operation that
 * receives 17.6 kB with a bare `node:http` listener. `direct` finds its route by one look-up, and `router` by
 * Koa's router. Run `node test/bench/http_dispatch.ts`.
 *
 * Each kind runs in a separate process, in turn. Compare the processor times, because rates depend on other
 * load on the machine.
 */
const KINDS = ["bare", "direct", "router"] as const;
type Kind = (typeof KINDS)[number];
const ROUNDS = 3;
const SECONDS = 4;
const BODY = JSON.stringify({ proof_bundle: "x".repeat(17_560), required_scope: "data:read" });

const asked = KINDS.find((kind) => kind === process.argv[2]);
if (asked !== undefined) {
  serve(asked);
} else {
  await measure();
}

async function measure(): Promise<void> {
  const record = createRecord();
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const kind of KINDS) {
      const { perSecond, cpuMicroseconds } = await load(kind);
      record.add(`${kind}: rate`, "requests a second", perSecond);
      record.add(kind, "µs of the processor a request", cpuMicroseconds);
    }
  }
  const ratios = ["direct", "router"].map((over) => ({ name: `${over} / bare`, over, under: "bare" }));
  report({ figures: record.figures(), ratios });
}

type Figures = { perSecond: number; cpuMicroseconds: number };

async function load(kind: Kind): Promise<Figures> {
  const child = fork(fileURLToPath(import.meta.url), [kind]);
  const told = (): Promise<number> =>
    new Promise((resolve) => child.once("message", (message) => resolve(Number(message))));
  const port = await told();
  const path = kind === "router" ? "/v1/service/connections/c-1/verify" : "/v1/service/verify";
  const run = (duration: number) =>
    autocannon({
      url: `http://127.0.0.1:${port}${path}`,
      method: "POST",
      headers: { "content-type": "application/json", "x-service-api-key": "known" },
      body: BODY,
      connections: 16,
      duration,
    });
  const cpu = () => {
    child.send("cpu");
    return told();
  };
  await run(1);
  const before = await cpu();
  const { requests, non2xx, errors } = await run(SECONDS);
  const used = (await cpu()) - before;
  child.kill();
  if (non2xx + errors > 0) throw new Error(`${kind}: ${non2xx + errors} answers were not 200`);
  return { perSecond: requests.average, cpuMicroseconds: used / requests.total };
}

function serve(kind: Kind): void {
  const listener = kind === "bare" ? bareListener : createListener();
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, listener);
  process.on("message", () => {
    const { user, system } = process.cpuUsage();
    process.send?.(user + system);
  });
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
}

function bareListener(request: IncomingMessage, response: ServerResponse): void {
  void readAll(request).then((bytes) => {
    const body = JSON.stringify({ decision: "allow", bytes: bytes.length });
    response
      .writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) })
      .end(body);
  });
}

function readAll(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.on("error", reject);
  });
}

/** Creates the application with as many routes as the contract has, and with paths for two aliases. */
function createListener(): RequestListener {
  const caller = {
    accountId: "a",
    principalAccountId: "a",
    isCustomer: false,
    connectionId: "c",
    keyPrefix: "k",
    verifierId: "v",
    registryAnswers: false,
    role: "full" as const,
    agentId: null,
    explanationValues: "full" as const,
  };
  const others = Array.from({ length: 40 }, (_, n) => hotRoute(`other_${n}`, `/v1/service/others/${n}/{id}`));
  return createApp({
    routes: [
      ...others,
      hotRoute("verify", "/v1/service/verify"),
      hotRoute("verify_of", "/v1/service/connections/{id}/verify"),
    ],
    config: {
      BASE_URL: "https://api.example",
      SERVICE_WORD: "service",
      SERVICE_WORD_ALIASES: ["ratify"],
      TRUSTED_PROXIES: [],
    },
    authenticators: {
      findSession: async () => undefined,
      findApiKey: async (presented) => (presented === "known" ? caller : undefined),
      identifyOperator: async () => {
        throw new ApiError("operator_unauthorized");
      },
      isServiceAdministrator: () => false,
      isLeader: async () => false,
    },
    idempotency: {
      once: async (_, run) => ({ answer: await run(), replayed: false }),
      sweep: async () => {},
      forgetSecrets: async () => {},
    },
    activity: { run: (_, work) => work() },
    rates: { take: async () => ({}), within: (_, __, run) => run({}) },
    changeRates: { take: () => {} },
    log: pino({ level: "silent" }),
    clock: systemClock,
    metrics: createMetrics(),
  });
}

function hotRoute(id: string, path: string): Route {
  return route({
    id,
    method: "POST",
    path,
    summary: id,
    access: "api_key",
    body: z.unknown() as z.ZodType<Buffer>,
    bodyForm: "raw",
    answer: {
      status: 200,
      schema: z.object({ decision: z.string(), bytes: z.int() }),
      description: "decided",
    },
    errors: [],
    handle: async ({ body }) => ({ body: { decision: "allow", bytes: body.length } }),
  });
}

import { once } from "node:events";
import { createServer, request } from "node:http";
import { type AddressInfo, createServer as createSocketServer, type Server } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { freePort } from "../../../src/dev/process/ports.ts";
import { setCredit } from "../../support/account_rows.ts";
import type { RunningGateway } from "../../support/gateway.ts";
import { type Application, proofApi } from "../application.ts";

/** Values that the configuration in docs/gateways.md leaves open: addresses and the key. */
export type Places = {
  service: string;
  application: string;
  key: string;
  /** The port on which the gateway listens, and a second port for internal use by the gateway. */
  port: number;
  innerPort: number;
};

export type Gateway = {
  name: string;
  /** The required program, if it is missing on this machine. */
  missing: string | undefined;
  start(places: Places): Promise<RunningGateway>;
};

type Reached = { line: string; headers: [string, string][] };

const WORDS = ["service", "ratify"];
/** A client sends this in headers that only the gateway may set. A proof cannot contain it. */
const OF_THE_CLIENT = "!of the client!";
const SET_BY_GATEWAY = [
  "api-key",
  "required-scope",
  "decision",
  "decision-reason",
  "human-id",
  "agent-id",
  "cert-id",
  "receipt-id",
];

/** Defines the tests for every gateway. The application behind the gateway knows nothing about proofs. */
export function describeGateway({ name, missing, start }: Gateway): void {
  if (missing !== undefined) console.warn(`${name} is not tested against its documentation: ${missing}`);
  const world = proofApi({ config: { SERVICE_WORD: "service", SERVICE_WORD_ALIASES: ["ratify"] } });
  const reached: Reached[] = [];
  const running: RunningGateway[] = [];
  const servers: Server[] = [];
  let app: Application;
  /** Ports of gateways, by the service that they call. `mute` never answers. Nothing listens at `nobody`. */
  let ports: Record<"service" | "nobody" | "mute" | "wrongKey", number>;

  async function listening(server: Server): Promise<string> {
    servers.push(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  beforeAll(async () => {
    if (missing !== undefined) return;
    app = await world.application(["data:read"]);
    const application = await listening(
      createServer((incoming, response) => {
        const { rawHeaders: raw, method, url = "" } = incoming;
        const headers = raw.flatMap((header, n): [string, string][] =>
          n % 2 === 0 ? [[header, raw[n + 1] ?? ""]] : [],
        );
        reached.push({ line: `${method} ${url}`, headers });
        response.statusCode = Number(new URL(url, "http://x").searchParams.get("status") ?? 200);
        incoming.resume().on("end", () => response.end("the application's own"));
      }),
    );
    const mute = await listening(createSocketServer((socket) => socket.on("error", () => {}).resume()));
    const service = new URL(world.api.url).host;
    const nobody = `127.0.0.1:${await freePort()}`;
    const { apiKey } = app.platform;
    const gateway = async (at: string, key = apiKey) => {
      const [port, innerPort] = [await freePort(), await freePort()];
      running.push(await start({ service: at, application, key, port, innerPort }));
      return port;
    };
    ports = {
      service: await gateway(service),
      nobody: await gateway(nobody),
      mute: await gateway(mute),
      wrongKey: await gateway(service, `dpz_${"x".repeat(40)}`),
    };
  });

  afterAll(async () => {
    await Promise.all(running.map((gateway) => gateway.stop()));
    for (const server of servers) server.close();
  });

  beforeEach(() => {
    reached.length = 0;
  });

  type Asked = {
    path?: string;
    method?: string;
    proof?: string;
    at?: keyof typeof ports;
    headers?: [string, string][];
  };

  async function ask({
    path = "/orders/7",
    method = "GET",
    proof,
    at = "service",
    headers = [],
  }: Asked = {}) {
    const port = ports[at];
    const all = [...headers, ...(proof === undefined ? [] : [["X-Service-Proof", proof]])];
    const host = ["Host", `127.0.0.1:${port}`];
    const body = method === "GET" ? "" : "a body";
    const length = method === "GET" ? [] : ["Content-Length", String(body.length)];
    const sent = request({
      port,
      host: "127.0.0.1",
      path,
      method,
      headers: [...host, ...length, ...all.flat()],
    });
    sent.end(body);
    const [response] = await once(sent, "response");
    let text = "";
    for await (const chunk of response) text += chunk;
    return { status: Number(response.statusCode), text };
  }

  const statusOf = async (asked: Asked) => (await ask(asked)).status;
  const proofRef = async () => String((await app.present()).body.proof_ref);
  const lines = () => reached.map(({ line }) => line);

  /** Returns the service's headers, however spelled, without the proof. A spent proof is not secret. */
  function ofService(): string[][] {
    const [{ headers } = { headers: [] }] = reached;
    return headers
      .map(([header, value]) => [header.toLowerCase().replaceAll(/[_.]/g, "-"), value])
      .filter(([header = ""]) => WORDS.some((word) => header.startsWith(`x-${word}-`)))
      .filter(([header = ""]) => !header.endsWith("-proof") && header !== "x-service-required-scope")
      .sort();
  }

  const known = () => [
    ["x-service-agent-id", app.agentId],
    ["x-service-cert-id", app.certId],
    ["x-service-decision", "allow"],
    ["x-service-decision-reason", "authorized"],
    ["x-service-human-id", app.person.humanId],
    ["x-service-receipt-id", expect.stringMatching(/^[0-9a-f-]{36}$/)],
  ];

  describe.skipIf(missing !== undefined)(`${name} with the configuration in docs/gateways.md`, () => {
    test("forwards a request with a valid proof once, with the ids of its authority", async () => {
      const proof = await proofRef();
      expect(await ask({ proof })).toEqual({ status: 200, text: "the application's own" });
      expect(ofService()).toEqual(known());
      const receipt = ofService().at(-1)?.[1];
      expect((await app.person.client.get(`/v1/service/receipts/${receipt}`)).status).toBe(200);
      expect(await statusOf({ proof })).toBe(403);
      expect(lines()).toEqual(["GET /orders/7"]);
    });

    test("also accepts the proof in a header with the alias of the service name", async () => {
      expect(await statusOf({ headers: [["X-Ratify-Proof", await proofRef()]] })).toBe(200);
      expect(lines()).toEqual(["GET /orders/7"]);
    });

    test("forwards requests with a body and any method, and leaves the application's answer unchanged", async () => {
      const methods = ["POST", "PUT", "PATCH", "DELETE"];
      for (const method of methods) expect(await statusOf({ method, proof: await proofRef() })).toBe(200);
      expect(lines()).toEqual(methods.map((method) => `${method} /orders/7`));
      for (const status of [403, 404, 500, 502, 503]) {
        const answer = await ask({ path: `/orders/7?status=${status}`, proof: await proofRef() });
        expect(answer).toEqual({ status, text: "the application's own" });
      }
    });

    test("answers 403 to a denied request, and to requests with no proof, a forged proof or a proof for a different service", async () => {
      expect(await statusOf({ path: "/refunds/7", method: "POST", proof: await proofRef() })).toBe(403);
      expect(await statusOf({})).toBe(403);
      expect(await statusOf({ proof: "abc" })).toBe(403);
      const other = await world.application(["data:read"]);
      expect(await statusOf({ proof: String((await other.present()).body.proof_ref) })).toBe(403);
      expect(lines()).toEqual([]);
    });

    test("asks for the scope of the route that the application will see", async () => {
      for (const path of ["/orders/../refunds/7", "/orders/%2e%2e/refunds/7", "/orders/..%2frefunds/7"]) {
        expect(await statusOf({ path, proof: await proofRef() })).not.toBe(200);
      }
      for (const path of ["//refunds/7", "/orders//..//refunds/7", "/orders/..%5crefunds/7"]) {
        await ask({ path, proof: await proofRef() });
      }
      const resolved = reached.map(({ line }) => new URL(line.slice(4), "http://x").pathname);
      expect(resolved.filter((path) => !path.startsWith("/orders/"))).toEqual([]);
    });

    test.each(SET_BY_GATEWAY)("removes every X-Service-%s header that the client sends", async (named) => {
      const spellings = WORDS.flatMap((word) => {
        const header = `X-${word}-${named}`;
        const upper = header.toUpperCase();
        return [header, header, upper, upper.replaceAll("-", "_"), header.replaceAll("-", ".")].concat(
          header.replace(/-(?=[^-]*$)/, "_"),
        );
      });
      const headers = spellings.map((header): [string, string] => [header, OF_THE_CLIENT]);
      expect(await statusOf({ headers, proof: await proofRef() })).toBe(200);
      expect(ofService()).toEqual(known());
      const [{ headers: all } = { headers: [] }] = reached;
      expect(all.flat().filter((text) => text.includes(OF_THE_CLIENT))).toEqual([]);
    });

    test("hides the API key from the application, and ignores a Connection header that would remove headers", async () => {
      const connection: [string, string] = [
        "Connection",
        `close, ${SET_BY_GATEWAY.map((named) => `X-Service-${named}`).join(", ")}`,
      ];
      for (const headers of [[], [connection]]) {
        reached.length = 0;
        expect(await statusOf({ headers, proof: await proofRef() })).toBe(200);
        expect(ofService()).toEqual(known());
        expect(JSON.stringify(reached)).not.toContain(app.platform.apiKey);
      }
    });

    test("never uses a key or scope that the client sends", async () => {
      const stranger = await world.application(["custom:orders:refund"]);
      const proof = String((await stranger.present()).body.proof_ref);
      const headers = WORDS.flatMap((word): [string, string][] => [
        [`X-${word}-API-Key`, stranger.platform.apiKey],
        [`X-${word}-Required-Scope`, "data:read"],
        [`X-${word}-Decision`, "allow"],
      ]);
      expect(await statusOf({ path: "/refunds/7", proof, headers })).toBe(403);
      expect(await statusOf({ path: "/refunds/7", proof: await proofRef(), headers })).toBe(403);
      expect(lines()).toEqual([]);
    });

    test.each(["nobody", "mute", "wrongKey"] as const)(
      "answers 503 to every request if there is no decision (%s)",
      async (at) => {
        expect(await statusOf({ at, proof: await proofRef() })).toBe(503);
        expect(lines()).toEqual([]);
      },
    );

    test("answers 503 to every request while the account has no credit", async () => {
      const own = app.person.accountId;
      await setCredit(world.api.db, own, 0);
      expect(await statusOf({ proof: await proofRef() })).toBe(503);
      await setCredit(world.api.db, own, 1e6);
      expect(await statusOf({ proof: await proofRef() })).toBe(200);
      expect(lines()).toEqual(["GET /orders/7"]);
    });

    test("answers 403 once the delegation is revoked", async () => {
      const proof = await proofRef();
      await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
      expect(await statusOf({ proof })).toBe(403);
      expect(lines()).toEqual([]);
    });
  });
}

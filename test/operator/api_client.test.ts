import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ApiClient, createApiClient } from "../../src/operator/api_client.ts";

type Seen = { method: string; path: string; headers: IncomingMessage["headers"]; body: string };

const state = { time: "2026-01-01T00:00:00.000Z", platforms: {}, agents: {}, delegations: {} };
const refusal = (code: string, status: number) => ({
  status,
  body: JSON.stringify({ error: { code, message: "because", status } }),
});

describe("the operator's API client", () => {
  let server: Server;
  let folder: string;
  let now: Date;
  let seen: Seen[];
  let claims: Seen[];
  let claimAnswer: { status: number; body: string };
  let superseded: number;
  let answer: (response: ServerResponse) => void;
  let client: ApiClient;
  const clients: ApiClient[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-client-"));
    now = new Date("2026-01-01T00:00:00Z");
    seen = [];
    claims = [];
    claimAnswer = { status: 200, body: JSON.stringify({ epoch: 7, former_epoch: 6 }) };
    superseded = 0;
    answerWith({ status: 200, body: JSON.stringify(state) });
    server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { method = "", url: path = "", headers } = request;
      const call = { method, path, headers, body: Buffer.concat(chunks).toString() };
      if (path === "/internal/v1/leadership") {
        claims.push(call);
        response.writeHead(claimAnswer.status).end(claimAnswer.body);
      } else {
        seen.push(call);
        answer(response);
      }
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    client = connect();
  });
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((each) => each.close()));
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true, force: true });
  });

  function url(): string {
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("the host has no address");
    return `http://127.0.0.1:${address.port}`;
  }

  function connect(options: { tokenFile?: string; deadlineMs?: number; baseUrl?: string } = {}): ApiClient {
    const made = createApiClient({
      clock: { now: () => now },
      baseUrl: url(),
      token: "first-token",
      clusterId: "cluster-1",
      holder: "pod-1",
      onSuperseded: () => {
        superseded += 1;
      },
      ...options,
    });
    clients.push(made);
    return made;
  }

  function answerWith({
    status,
    body,
    headers = {},
  }: {
    status: number;
    body: string;
    headers?: Record<string, string>;
  }) {
    answer = (response) => void response.writeHead(status, headers).end(body);
  }

  test("sends its token, cluster id and epoch", async () => {
    expect(await client.readState(["cluster-1.a"])).toEqual({ value: state });
    expect(seen).toMatchObject([
      {
        method: "POST",
        path: "/internal/v1/state",
        body: '{"external_ids":["cluster-1.a"]}',
        headers: {
          authorization: "Bearer first-token",
          "x-deputize-cluster": "cluster-1",
          "x-deputize-epoch": "7",
          "content-type": "application/json",
        },
      },
    ]);
  });

  test("claims an epoch once, before its first call", async () => {
    await Promise.all([client.readState([]), client.removeAgent("a")]);
    await client.readState([]);
    expect(claims).toMatchObject([{ method: "POST", body: '{"holder":"pod-1"}' }]);
    expect(claims[0]?.headers["x-deputize-epoch"]).toBeUndefined();
    expect(seen.map(({ headers }) => headers["x-deputize-epoch"])).toEqual(["7", "7", "7"]);
  });

  test.each([
    ["an outage", refusal("unavailable", 503), { kind: "unavailable", message: "because" }],
    ["a refusal", refusal("not_found", 404), { kind: "unavailable", message: "because" }],
    ["a wrong token", refusal("operator_unauthorized", 401), { kind: "unauthorized", message: "because" }],
    [
      "an answer of an unexpected form",
      { status: 200, body: '{"epoch":"7"}' },
      { kind: "unavailable", message: "the answer to POST has an unknown form" },
    ],
  ])(
    "sends no call if its claim of an epoch fails with %s, and claims again before the next call",
    async (_, reply, failure) => {
      claimAnswer = reply;
      expect(await client.readState([])).toEqual({ failure });
      expect(seen).toEqual([]);
      claimAnswer = { status: 200, body: JSON.stringify({ epoch: 8, former_epoch: 7 }) };
      expect(await client.readState([])).toEqual({ value: state });
      expect(seen[0]?.headers["x-deputize-epoch"]).toBe("8");
    },
  );

  test("reports that a newer leader claimed an epoch, and does not claim one itself", async () => {
    await client.readState([]);
    expect(superseded).toBe(0);
    answerWith(refusal("stale_epoch", 409));
    await client.readState([]);
    expect([superseded, claims.length]).toEqual([1, 1]);
  });

  test("escapes an external id in a path", async () => {
    await client.removeAgent("../platforms/x?y");
    expect(seen[0]?.path).toBe("/internal/v1/agents/..%2Fplatforms%2Fx%3Fy");
  });

  test("accepts a newer API's answers with unknown fields, custody modes and keys", async () => {
    const known = {
      agent_id: "a",
      name: "bot",
      agent_type: "new_type",
      custody_mode: "new_mode",
      public_key_json: { ed25519: "e", ml_dsa_65: "m", new_key: { of: "another form" } },
      disabled: false,
    };
    answerWith({ status: 200, body: JSON.stringify({ ...known, new_field: true }) });
    const desired = {
      object: { namespace: "default", name: "bot" },
      platform_external_id: "cluster-1.p",
      name: "bot",
      agent_type: "api_agent",
    } as const;
    expect(await client.putAgent("cluster-1.a", desired)).toEqual({ value: known });
  });

  test("reuses its connections", async () => {
    const sockets = new Set<unknown>();
    server.on("connection", (socket) => sockets.add(socket));
    for (let count = 0; count < 20; count += 1) await client.readState([]);
    expect(sockets.size).toBeLessThanOrEqual(3);
  });

  test.each([
    [
      "a refusal",
      refusal("ceiling_exceeded", 400),
      { kind: "refused", code: "ceiling_exceeded", message: "because" },
    ],
    [
      "a conflict",
      refusal("external_conflict", 409),
      { kind: "refused", code: "external_conflict", message: "because" },
    ],
    [
      "an unavailable vault",
      refusal("vault_unavailable", 503),
      { kind: "refused", code: "vault_unavailable", message: "because" },
    ],
    ["a wrong token", refusal("operator_unauthorized", 401), { kind: "unauthorized", message: "because" }],
    ["a newer leader", refusal("stale_epoch", 409), { kind: "superseded", message: "because" }],
    ["an outage", refusal("unavailable", 503), { kind: "unavailable", message: "because" }],
    ["a fault", refusal("internal", 500), { kind: "unavailable", message: "because" }],
    ["an unknown error code", refusal("teapot", 418), { kind: "unavailable", message: "because" }],
    ["a proxy's page", { status: 404, body: "<html>" }, { kind: "unavailable", message: "it answered 404" }],
    [
      "a redirect",
      { status: 302, body: "", headers: { location: "/login" } },
      { kind: "unavailable", message: "it answered 302" },
    ],
    [
      "an answer that is not JSON",
      { status: 200, body: "OK" },
      { kind: "unavailable", message: "the answer to POST has an unknown form" },
    ],
    [
      "an answer of an unexpected form",
      { status: 200, body: "{}" },
      { kind: "unavailable", message: "the answer to POST has an unknown form" },
    ],
  ])("returns a failure instead of rejecting, for %s", async (_, reply, failure) => {
    answerWith(reply);
    expect(await client.readState([])).toEqual({ failure });
  });

  test.each([
    ["5", 5000],
    ["0", 0],
    ["86400", 3_600_000],
    ["Wed, 21 Oct 2026 07:28:00 GMT", undefined],
    ["-1", undefined],
  ])("follows the header Retry-After: %s, for at most an hour", async (header, expected) => {
    answerWith({ ...refusal("rate_limited", 429), headers: { "retry-after": header } });
    const { failure } = await client.readState([]);
    expect(failure).toEqual({
      kind: "unavailable",
      message: "because",
      ...(expected === undefined ? {} : { retryAfterMs: expected }),
    });
  });

  test("gives up a call at the call's deadline if the answer is missing or slow", async () => {
    const impatient = connect({ deadlineMs: 150 });
    const late = { failure: { kind: "unavailable", message: "it did not answer in time" } };
    answer = () => undefined;
    expect(await impatient.readState([])).toEqual(late);
    answer = (response) => void response.writeHead(200).write("{");
    expect(await impatient.readState([])).toEqual(late);
  });

  test("reports a network error by its kind only, without an address", async () => {
    const nowhere = connect({ baseUrl: "http://127.0.0.1:1" });
    expect(await nowhere.readState([])).toEqual({
      failure: { kind: "unavailable", message: "the call failed (ECONNREFUSED)" },
    });
  });

  test("reads its token file again after a minute, and immediately after the API refused the token", async () => {
    const tokenFile = join(folder, "token");
    await writeFile(tokenFile, "one\n");
    const reading = connect({ tokenFile });
    const tokenSent = async () => {
      await reading.readState([]);
      return seen.at(-1)?.headers.authorization;
    };
    expect(await tokenSent()).toBe("Bearer one");
    await writeFile(tokenFile, "two\n");
    now = new Date(now.getTime() + 59_999);
    expect(await tokenSent()).toBe("Bearer one");
    now = new Date(now.getTime() + 1);
    expect(await tokenSent()).toBe("Bearer two");
    await writeFile(tokenFile, "three\n");
    answerWith(refusal("operator_unauthorized", 401));
    expect(await tokenSent()).toBe("Bearer two");
    expect(await tokenSent()).toBe("Bearer three");
    await rm(tokenFile);
    expect(await reading.readState([])).toEqual({
      failure: { kind: "unavailable", message: "the call failed (ENOENT)" },
    });
  });
});

import * as client2 from "@modelcontextprotocol/client";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { AUTHORITY } from "../../../src/sdk/mcp/mcp.ts";
import type { Decider } from "../../../src/sdk/proxy/decide.ts";
import { createCallers } from "../../../src/sdk/proxy/http/callers.ts";
import { serveHttp } from "../../../src/sdk/proxy/http/serve_http.ts";
import { createJournal } from "../../../src/sdk/proxy/journal.ts";
import { listToolsOf } from "../../../src/sdk/proxy/list_tools.ts";
import { createDecider } from "../../../src/sdk/proxy/proxy.ts";
import { createToolList } from "../../../src/sdk/proxy/tool_list.ts";
import { type Application, proofApi } from "../../proofs/application.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { type BankClient, listen, PAYMENT, SCOPE } from "../mcp/bank.ts";
import { HTTP_SERVERS, hashesOf, type Reached, rulesOf } from "./proxied.ts";

const world = proofApi();
const RULES = { send_payment: { scope: SCOPE, amount: "amount" }, health: { open: true } };
const reached: Reached[] = [];
let app: Application;
let key: string;
let otherKey: string;
let decider: Decider;
let closing: (() => unknown)[] = [];

const refusal = (code: string) => ({ isError: true, _meta: { [AUTHORITY]: { code } } });
const agentKey = async ({ platform, agentId }: Application) => {
  const { body } = await createKey(world.api, platform, { role: "agent", agent_id: agentId });
  return String(body.api_key);
};

/** Starts a proxy in front of a server. Its rules accept the tools that the server lists. */
async function proxied(upstream: URL, { mode = "enforce" } = {}) {
  const { tools } = await listToolsOf(upstream, {});
  const rules = rulesOf(RULES, { mode, hashes: hashesOf(tools) });
  const lines: Record<string, unknown>[] = [];
  const journal = createJournal("bank", rules.mode, (line) => lines.push(JSON.parse(line)));
  const parts = { rules, journal, tools: createToolList(rules, journal), decider };
  const findCaller = createCallers({ baseUrl: world.api.url });
  const address = { host: "127.0.0.1", port: 0, upstream, origins: ["https://app.example"] };
  const { port, stop } = await serveHttp(parts, { ...address, findCaller });
  closing.push(stop);
  const url = new URL(`http://127.0.0.1:${port}/mcp`);
  const post = (message: unknown, headers: Record<string, string> = {}) =>
    fetch(url, {
      method: "POST",
      headers: {
        ...{ "content-type": "application/json", accept: "application/json, text/event-stream" },
        ...{ authorization: `Bearer ${key}`, ...headers },
      },
      body: typeof message === "string" ? message : JSON.stringify(message),
    });
  return { url, lines, post };
}

async function server(version: keyof typeof HTTP_SERVERS) {
  const seen: Headers[] = [];
  const served = await HTTP_SERVERS[version]((each) => void reached.push(each), seen);
  closing.push(served.stop);
  return { url: served.url, seen };
}

const CLIENTS = {
  "client 1.x": async (url: URL, bearer: string | undefined): Promise<BankClient> => {
    const client = new Client1({ name: "agent", version: "1" });
    await client.connect(new Http1(url, { requestInit: { headers: headersOf(bearer) } }) as never);
    return client as never;
  },
  "client 2.x that negotiates": async (url: URL, bearer: string | undefined): Promise<BankClient> => {
    const client = new client2.Client(
      { name: "agent", version: "1" },
      { versionNegotiation: { mode: "auto" } },
    );
    const requestInit = { headers: headersOf(bearer) };
    await client.connect(new client2.StreamableHTTPClientTransport(url, { requestInit }));
    return client as never;
  },
} as const;
const headersOf = (bearer: string | undefined) =>
  bearer === undefined ? {} : { authorization: `Bearer ${bearer}`, cookie: "session=secret" };

async function connect(client: keyof typeof CLIENTS, url: URL, bearer: string | undefined = key) {
  const bank = await CLIENTS[client](url, bearer);
  closing.unshift(() => bank.close());
  return bank;
}

beforeAll(async () => {
  app = await world.application();
  const other = await world.application();
  [key, otherKey] = [await agentKey(app), await agentKey(other)];
  const { body } = await createKey(world.api, app.platform, { role: "verify" });
  const quiet = createJournal("bank", "enforce", () => undefined);
  const service = { baseUrl: world.api.url, word: undefined };
  decider = createDecider({ service, verifyKey: () => String(body.api_key) }, quiet) as Decider;
});
beforeEach(() => {
  reached.length = 0;
});
afterEach(async () => {
  for (const close of closing) await close();
  closing = [];
});

const initialize = {
  ...{ jsonrpc: "2.0", id: 0, method: "initialize" },
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "a", version: "1" } },
};
const payment = (id: number) => ({
  ...{ jsonrpc: "2.0", id, method: "tools/call" },
  params: { name: "send_payment", arguments: PAYMENT },
});

describe.each([
  ["SDK 1.x", "client 1.x"],
  ["SDK 2.x", "client 1.x"],
  ["SDK 2.x", "client 2.x that negotiates"],
] as const)("a proxy over HTTP, %s and %s,", (version, client) => {
  test("runs allowed calls, refuses others, and sends no key upstream: attack 17", async () => {
    const { url, seen } = await server(version);
    const { url: own, lines } = await proxied(url);
    const bank = await connect(client, own);
    expect(await bank.callTool({ name: "send_payment", arguments: PAYMENT })).toMatchObject({
      content: [{ text: "did send_payment" }],
    });
    expect(await bank.callTool({ name: "hidden" })).toMatchObject(refusal("tool_without_rule"));
    await expect(bank.readResource({ uri: "bank://notes" })).rejects.toMatchObject({ code: -32602 });
    expect(await bank.callTool({ name: "health" })).toMatchObject({ content: [{ text: "did health" }] });
    expect(reached.map(({ tool }) => tool)).toEqual(["send_payment", "health"]);
    expect(seen.length).toBeGreaterThan(2);
    for (const headers of seen) {
      expect([headers.get("authorization"), headers.get("cookie")]).toEqual([null, null]);
    }
    const calls = () => lines.filter(({ msg }) => msg === "call");
    await expect.poll(calls, { timeout: 10_000 }).toMatchObject([
      { tool: "send_payment", code: "allow", outcome: "executed", agent_id: app.agentId },
      { code: "tool_without_rule", decision: "refused" },
      { tool: "health", code: "open", outcome: "executed" },
    ]);
    expect(JSON.stringify(lines)).not.toContain("dpz");
  });
});

describe("a proxy over HTTP", () => {
  test("refuses requests without a valid key, and of web pages: attack 17", async () => {
    const { url, seen } = await server("SDK 1.x");
    const { post, url: own } = await proxied(url);
    const before = seen.length;
    const verify = await createKey(world.api, app.platform, { role: "verify" });
    const wrong = [`${key.slice(0, -1)}_`, app.platform.apiKey, String(verify.body.api_key), "x"];
    for (const each of wrong) {
      expect((await post(initialize, { authorization: `Bearer ${each}` })).status).toBe(401);
    }
    expect((await post(initialize, { authorization: "" })).status).toBe(401);
    expect((await post(initialize, { origin: "https://evil.example" })).status).toBe(403);
    expect((await fetch(new URL("/other", own))).status).toBe(404);
    expect(seen).toHaveLength(before);
    expect((await post(initialize, { origin: "https://app.example" })).status).toBe(200);
  });

  test("refuses arrays, strange JSON, and headers that differ from the body: attacks 6 and 17", async () => {
    const { url, seen } = await server("SDK 1.x");
    const { post } = await proxied(url);
    const before = seen.length;
    const twice = '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}';
    expect((await post([payment(1)])).status).toBe(400);
    expect((await post(twice)).status).toBe(400);
    expect((await post(payment(1), { "mcp-method": "tools/list" })).status).toBe(400);
    expect((await post(payment(1), { "mcp-name": "health" })).status).toBe(400);
    expect((await post(payment(1), { "content-type": "text/plain" })).status).toBe(415);
    expect(seen).toHaveLength(before);
  });

  test("lets no agent use the session of another: attack 18", async () => {
    const { url } = await server("SDK 1.x");
    const { post, url: own } = await proxied(url);
    const started = await post(initialize);
    await started.text();
    const session = { "mcp-session-id": String(started.headers.get("mcp-session-id")) };
    const foreign = { ...session, authorization: `Bearer ${otherKey}` };
    expect((await post(payment(1), foreign)).status).toBe(404);
    const headers = { ...foreign, accept: "text/event-stream" };
    expect((await fetch(own, { headers })).status).toBe(404);
    expect((await fetch(own, { method: "DELETE", headers })).status).toBe(404);
    expect((await post(payment(1), { "mcp-session-id": "invented" })).status).toBe(404);
    const paid = await post(payment(2), session);
    expect(await paid.text()).toContain("did send_payment");
    // The other agent has a session of its own, and no authority.
    const bank = await connect("client 1.x", own, otherKey);
    expect(await bank.callTool({ name: "send_payment", arguments: PAYMENT })).toMatchObject({
      isError: true,
    });
    expect(reached).toHaveLength(1);
  });

  test("follows no redirect of the server, and answers if the server does not: attack 17", async () => {
    const { url } = await server("SDK 1.x");
    let goal = url;
    const relay = await listen(async (request) => {
      if (goal !== url) return Response.redirect(goal, 307);
      return fetch(url, { method: "POST", headers: request.headers, body: await request.text() });
    });
    closing.push(relay.stop);
    const { post } = await proxied(relay.url);
    goal = new URL("http://127.0.0.1:1/mcp");
    const answer = await post(initialize);
    expect([answer.status, await answer.json()]).toMatchObject([502, { id: 0, error: { code: -32603 } }]);
    await relay.stop();
    expect((await post(initialize)).status).toBe(502);
  });

  test("marks no answer as one that others may share: attack 19", async () => {
    const { url } = await server("SDK 2.x");
    const { post } = await proxied(url);
    const started = await post(initialize);
    expect(started.headers.get("cache-control")).toBe("no-store");
    expect((await post([])).headers.get("cache-control")).toBe("no-store");
  });

  test("passes calls without a key in observe", async () => {
    const { url } = await server("SDK 1.x");
    const { url: own, lines } = await proxied(url, { mode: "observe" });
    const bank = await connect("client 1.x", own, undefined);
    const bare = await CLIENTS["client 1.x"](own, undefined);
    closing.unshift(() => bare.close());
    for (const each of [bank, bare]) {
      expect(await each.callTool({ name: "hidden", arguments: PAYMENT })).not.toHaveProperty("isError");
    }
    expect(lines.filter(({ msg }) => msg === "call")).toMatchObject([
      { code: "tool_without_rule", not_enforced: true },
      { code: "tool_without_rule", not_enforced: true },
    ]);
  });
});

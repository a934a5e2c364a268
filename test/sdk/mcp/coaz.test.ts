import { join } from "node:path";
import * as sdk from "@modelcontextprotocol/client";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createAgent } from "../../../src/sdk/agent/agent.ts";
import { AUTHORITY, withAuthority } from "../../../src/sdk/mcp/mcp.ts";
import { type Application, answerFromRegistry, certify, proofApi } from "../../proofs/application.ts";
import { codeBlocks } from "../../support/markdown.ts";
import { CLIENTS, listen, PAYMENT, SCOPE, type Served } from "./bank.ts";

const EXAMPLE = join(import.meta.dirname, "../../../docs/examples/mcp/coaz.mjs");

type Json = Record<string, unknown>;
type Decide = (params: unknown) => Promise<{ params?: object; result?: object; error?: object }>;
type Example = { createDecider(of: { baseUrl: string; apiKey: string; server: string }): Promise<Decide> };

const world = proofApi();
const paid: object[] = [];
/** The questions of the gateway, with the answers of the service. */
const asked: { question: Json; answer: Json }[] = [];
/** The refusals that the gateway returned. */
const returned: object[] = [];
const stops: (() => unknown)[] = [];
let app: Application;
let isServiceDown = false;
let gateway: URL;

/** A server that knows nothing of proofs. */
function bank(): McpServer {
  const mcp = new McpServer({ name: "bank", version: "1" });
  const inputSchema = z.looseObject({ to: z.string(), amount: z.number(), currency: z.string() });
  mcp.registerTool("send_payment", { inputSchema }, (payment, context) => {
    paid.push({
      payment,
      meta: Object.keys(context.mcpReq._meta ?? {}).filter((name) => name === AUTHORITY),
    });
    return { content: [{ type: "text", text: "paid" }] };
  });
  return mcp;
}

/** Passes requests to the service, and notes the gateway's questions. */
async function service(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  const body = request.method === "POST" ? await request.text() : undefined;
  if (body !== undefined && isServiceDown) return new Response("{}", { status: 503 });
  const { method, headers } = request;
  const response = await fetch(`${world.api.url}${pathname}`, { method, headers, ...(body && { body }) });
  const answer = (await response.json()) as Json;
  if (body !== undefined) asked.push({ question: JSON.parse(body), answer });
  return Response.json(answer, { status: response.status });
}

type Message = { id?: number; method: string; params?: object };
const OPEN = ["initialize", "ping", "server/discover", "tools/list", "notifications/initialized"];

/** Returns a gateway that decides each call of a tool with the example, and passes only open methods on. */
function gatewayTo(upstream: URL, decide: Decide) {
  return async (request: Request): Promise<Response> => {
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const { id, method, params = {} } = (await request.json()) as Message;
    const reply = (more: object) => {
      returned.push(more);
      return Response.json({ jsonrpc: "2.0", id, ...more });
    };
    const forward = (given: object) => {
      const named = [...request.headers].filter(([name]) => /^(accept|content-type|mcp-.*)$/.test(name));
      const body = JSON.stringify({ jsonrpc: "2.0", id, method, params: given });
      return fetch(upstream, { method: "POST", headers: named, body });
    };
    if (OPEN.includes(method)) return forward(params);
    if (method !== "tools/call") return reply({ error: { code: -32602, message: "Nothing was done." } });
    const { params: allowed, ...refused } = await decide(params);
    return allowed === undefined ? reply(refused) : forward(allowed);
  };
}

beforeAll(async () => {
  app = await world.application([]);
  await certify(app, [SCOPE], { constraints: [{ type: "max_amount", max_amount: 10, currency: "EUR" }] });
  await answerFromRegistry(app);
  const handler = createMcpHandler(bank);
  const upstream = await listen((request) => handler.fetch(request));
  const recorder = await listen(service);
  const { createDecider } = (await import(EXAMPLE)) as Example;
  const settings = { baseUrl: recorder.url.origin, apiKey: app.platform.apiKey, server: "bank" };
  const front = await listen(gatewayTo(upstream.url, await createDecider(settings)));
  gateway = front.url;
  stops.push(() => handler.close(), upstream.stop, recorder.stop, front.stop);
});
afterAll(async () => {
  for (const stop of stops) await stop();
});
beforeEach(() => {
  for (const list of [paid, asked, returned]) list.length = 0;
  isServiceDown = false;
});

const agent = () => {
  const { platform, agentId } = app;
  const verifiers = { "mcp:bank": "own" } as const;
  return createAgent({ baseUrl: world.api.url, apiKey: platform.apiKey, agentId, verifiers });
};
const proving = (transport: Parameters<typeof withAuthority>[0]) =>
  withAuthority(transport, agent(), {
    server: "bank",
    scopes: { send_payment: { scope: SCOPE, resource: "to" } },
  });
const served = (): Served => ({ url: gateway, stop: async () => undefined });
const call = (payment: object = PAYMENT) => ({ name: "send_payment", arguments: { ...payment } });
const refusal = (code: string) => ({ isError: true, _meta: { [AUTHORITY]: { code } } });

/** Pays through the gateway. `change` sees each request, and returns what arrives at the gateway. */
async function payWith(change: (message: string) => string, payment: object = PAYMENT): Promise<unknown> {
  const transport = new sdk.StreamableHTTPClientTransport(gateway, {
    fetch: (url, init) => fetch(url, { ...init, ...(init?.body && { body: change(String(init.body)) }) }),
  });
  const client = new sdk.Client({ name: "agent", version: "1" });
  await client.connect(proving(transport) as typeof transport);
  try {
    return await client.callTool(call(payment));
  } finally {
    await client.close();
  }
}

/** Returns what a value of an example matches. In an example, `…` stands for any text. */
function like(example: unknown): unknown {
  if (Array.isArray(example)) return example.map(like);
  if (typeof example === "object" && example !== null) {
    return Object.fromEntries(Object.entries(example).map(([name, value]) => [name, like(value)]));
  }
  if (typeof example !== "string" || !example.includes("…")) return example;
  return expect.stringMatching(`^${example.split("…").map(RegExp.escape).join("[^ ]+")}$`);
}

/** Returns the JSON that the page on MCP shows below a heading. */
async function shown(heading: string): Promise<Json[]> {
  return (await codeBlocks("docs/mcp.md", heading)).map(({ code }) => JSON.parse(code));
}

describe("a gateway that asks with AuthZEN as COAZ maps a call", () => {
  test.each(["client 1.x", "client 2.x that negotiates"] as const)(
    "passes one allowed call of %s on, with all arguments and without its proof",
    async (name) => {
      const client = await CLIENTS[name](served(), proving);
      const payment = {
        ...PAYMENT,
        note: { "10": [null, -0.5, "\u2028"], "2": '"', "😀": {}, "\uff5e": [] },
      };
      expect(await client.callTool(call(payment))).toMatchObject({ content: [{ text: "paid" }] });
      expect(paid).toEqual([{ payment, meta: [] }]);
      await client.close();
    },
  );

  test("runs a tool once: it refuses changed input, a call without a proof, and the call again", async () => {
    const sent: string[] = [];
    const noted = (body: string) => {
      if (body.includes("tools/call")) sent.push(body);
      return body;
    };
    expect(await payWith(noted)).toMatchObject({ content: [{ text: "paid" }] });
    const changed = (body: string) => body.replace('"amount":5', '"amount":6');
    expect(await payWith(changed)).toMatchObject(refusal("session_context_mismatch"));
    const moved = (body: string) => body.replaceAll('"bob"', '"mallory"');
    expect(await payWith(moved)).toMatchObject(refusal("session_context_mismatch"));
    const more = (body: string) => body.replace('"arguments":', '"inputResponses":{"a":{}},"arguments":');
    expect(await payWith(more)).toMatchObject(refusal("session_context_mismatch"));
    const bare = (body: string) => body.replace(AUTHORITY, "io.example/other");
    expect(await payWith(bare)).toMatchObject(refusal("proof_required"));
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    const again = await fetch(gateway, { method: "POST", headers, body: sent[0] ?? "" });
    expect(await again.json()).toMatchObject({ result: refusal("replayed") });
    expect(paid).toHaveLength(1);
  });

  test("returns an error, and calls nothing, if the service does not answer or an argument is absent", async () => {
    const { currency: _, ...partial } = PAYMENT;
    await expect(payWith((body) => body, partial)).rejects.toMatchObject({ code: -32602 });
    isServiceDown = true;
    await expect(payWith((body) => body)).rejects.toMatchObject({ code: -32603 });
    expect(paid).toEqual([]);
  });

  test("sends the request, and gets the answers, that the page on MCP shows", async () => {
    const [, request] = await shown("The mapping and the request");
    const [allowed, denied, result] = await shown("The answers");
    await payWith((body) => body);
    await payWith((body) => body, { ...PAYMENT, amount: 50 });
    const [passed, stopped] = asked;
    expect([passed?.question, passed?.answer, stopped?.answer, ...returned]).toEqual(
      [request, allowed, denied, { result }].map(like),
    );
  });
});

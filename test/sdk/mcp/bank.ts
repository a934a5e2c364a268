import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import * as client2 from "@modelcontextprotocol/client";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as HttpClient1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTransport as Memory1 } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer as McpServer1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { WebStandardStreamableHTTPServerTransport as HttpServer1 } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import * as server2 from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { expect } from "vitest";
import { z } from "zod";
import { createAgent } from "../../../src/sdk/agent/agent.ts";
import { createGuard, type Guard } from "../../../src/sdk/guard.ts";
import {
  AUTHORITY,
  type AuthInfo,
  authorityOf,
  type ClientTransport,
  type GuardToolsOptions,
  guardTools,
  type ToolRules,
  withAuthority,
} from "../../../src/sdk/mcp/mcp.ts";
import type { Application } from "../../proofs/application.ts";

export const SCOPE = "payments:send";
export const RULES: ToolRules = {
  send_payment: { scope: SCOPE, amount: "amount", currency: "currency", resource: "to" },
  health: { open: true },
};
export const PAYMENT = { to: "bob", amount: 5, currency: "EUR" };

/** The input of a tool of the bank. */
export type Paid = { arguments: Record<string, unknown>; context: object };
type Tools = { paid: Paid[]; pay?: ((paid: Paid) => unknown) | undefined };
type Result = { content: { type: "text"; text: string }[] };

/** A dangerous schema on purpose: it fills in an absent amount, and turns text into a number. */
const SHAPE = {
  to: z.string().default("mallory"),
  amount: z.coerce.number().default(999_999),
  currency: z.string().default("EUR"),
};
const text = (said: string): Result => ({ content: [{ type: "text", text: said }] });

async function pay(tools: Tools, given: Record<string, unknown>, context: object): Promise<Result> {
  const paid = { arguments: given, context };
  const result = await tools.pay?.(paid);
  if (result === undefined) tools.paid.push(paid);
  return (result as Result | undefined) ?? text(`paid for ${authorityOf(context).humanId}`);
}

export type BankSettings = {
  guard: Guard;
  tools: Tools;
  rules?: ToolRules;
  options?: Partial<GuardToolsOptions> | undefined;
  /** The accepted bearer token of each request, over HTTP. */
  authInfo?: AuthInfo | undefined;
};

export function bank1({ guard, tools, rules = RULES, options }: BankSettings): McpServer1 {
  const mcp = guardTools(new McpServer1({ name: "bank", version: "1" }), guard, rules, {
    server: "bank",
    ...options,
  });
  mcp.registerTool("send_payment", { inputSchema: SHAPE }, (given, extra) => pay(tools, given, extra));
  mcp.registerTool("hidden", { inputSchema: SHAPE }, (given, extra) => pay(tools, given, extra));
  mcp.registerTool("health", {}, () => text("healthy"));
  mcp.registerResource("notes", "bank://notes", {}, () => ({
    contents: [{ uri: "bank://notes", text: "secret" }],
  }));
  return mcp;
}

export function bank2({ guard, tools, rules = RULES, options }: BankSettings): server2.McpServer {
  const mcp = guardTools(new server2.McpServer({ name: "bank", version: "1" }), guard, rules, {
    server: "bank",
    ...options,
  });
  const inputSchema = z.object(SHAPE);
  mcp.registerTool("send_payment", { inputSchema }, (given, context) => pay(tools, given, context));
  mcp.registerTool("hidden", { inputSchema }, (given, context) => pay(tools, given, context));
  mcp.registerTool("health", {}, () => text("healthy"));
  mcp.registerResource("notes", "bank://notes", {}, () => ({
    contents: [{ uri: "bank://notes", text: "secret" }],
  }));
  return mcp;
}

/** Serves web-standard requests on loopback. */
export async function listen(
  handle: (request: Request) => Promise<Response>,
): Promise<{ url: URL; stop(): Promise<void> }> {
  const server = createServer(async (incoming, outgoing) => {
    const body = Buffer.concat(await incoming.toArray());
    const aborted = new AbortController();
    outgoing.on("close", () => aborted.abort());
    const request = new Request(`http://127.0.0.1${incoming.url}`, {
      method: incoming.method ?? "GET",
      headers: incoming.headers as Record<string, string>,
      signal: aborted.signal,
      ...(body.length > 0 && { body }),
    });
    const response = await handle(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.flushHeaders();
    for await (const chunk of response.body ?? []) outgoing.write(chunk);
    outgoing.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: new URL(`http://127.0.0.1:${port}/mcp`),
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A client of either SDK, as far as the tests use it. */
export type BankClient = {
  callTool(params: {
    name: string;
    arguments?: Record<string, unknown>;
    _meta?: Record<string, unknown>;
  }): Promise<unknown>;
  readResource(params: { uri: string }): Promise<unknown>;
  getServerCapabilities(): unknown;
  close(): Promise<void>;
};
/** A running bank, and the client's end of a connection to it. */
export type Served = { transport?: ClientTransport; url?: URL; stop(): Promise<unknown> };

/** Each way to serve a bank: in memory as `stdio` does, and over HTTP. */
export const SERVERS = {
  "SDK 1.x in memory": async (settings: BankSettings): Promise<Served> => {
    const [near, far] = Memory1.createLinkedPair();
    const mcp = bank1(settings);
    await mcp.connect(far);
    return { transport: near, stop: () => mcp.close() };
  },
  "SDK 1.x over HTTP": async (settings: BankSettings): Promise<Served> => {
    const mcp = bank1(settings);
    const { authInfo } = settings;
    const transport = new HttpServer1({ sessionIdGenerator: randomUUID });
    await mcp.connect(transport);
    const { url, stop } = await listen((request) =>
      transport.handleRequest(request, authInfo && { authInfo }),
    );
    return { url, stop: () => Promise.all([mcp.close(), stop()]) };
  },
  "SDK 2.x in memory": async (settings: BankSettings): Promise<Served> => {
    const [near, far] = server2.InMemoryTransport.createLinkedPair();
    const handle = serveStdio(() => bank2(settings), { transport: far });
    return { transport: near, stop: () => handle.close() };
  },
  "SDK 2.x over HTTP": async (settings: BankSettings): Promise<Served> => {
    const { authInfo } = settings;
    const handler = server2.createMcpHandler(() => bank2(settings));
    const { url, stop } = await listen((request) => handler.fetch(request, authInfo && { authInfo }));
    return {
      url,
      stop: () => Promise.all([handler.close(), stop()]),
    };
  },
} as const;

type Wrap = (transport: ClientTransport) => ClientTransport;
const http1 = ({ transport, url }: Served) => transport ?? new HttpClient1(new URL(url ?? ""));
const http2 = ({ transport, url }: Served) =>
  transport ?? new client2.StreamableHTTPClientTransport(new URL(url ?? ""));

/** Connects a client, whose transport `wrap` returns. Clients differ in the eras of the protocol. */
export const CLIENTS = {
  "client 1.x": async (served: Served, wrap: Wrap): Promise<BankClient> => {
    const client = new Client1({ name: "agent", version: "1" });
    await client.connect(wrap(http1(served)) as Memory1);
    return client as unknown as BankClient;
  },
  "client 2.x of the old era": async (served: Served, wrap: Wrap): Promise<BankClient> => {
    const client = new client2.Client({ name: "agent", version: "1" });
    await client.connect(wrap(http2(served)) as client2.Transport);
    return client as unknown as BankClient;
  },
  "client 2.x that negotiates": async (served: Served, wrap: Wrap): Promise<BankClient> => {
    const client = new client2.Client(
      { name: "agent", version: "1" },
      { versionNegotiation: { mode: "auto" }, capabilities: { elicitation: {} } },
    );
    client.setRequestHandler("elicitation/create", () => ({
      action: "accept",
      content: { amount: 999_999 },
    }));
    await client.connect(wrap(http2(served)) as client2.Transport);
    return client as unknown as BankClient;
  },
} as const;

/** A served bank of an application, and the transport of its agent. */
export async function bankFor(
  { platform, agentId }: Application,
  baseUrl: string,
  server: keyof typeof SERVERS,
  tools: Tools,
) {
  const guard = createGuard({ baseUrl, apiKey: platform.apiKey });
  const served = await SERVERS[server]({ guard, tools });
  const agent = createAgent({ baseUrl, apiKey: platform.apiKey, agentId, verifiers: { "mcp:bank": "own" } });
  const options = { server: "bank", scopes: { send_payment: { scope: SCOPE, resource: "to" } } };
  const wrap = <T extends ClientTransport>(transport: T) => withAuthority(transport, agent, options);
  return { ...served, wrap };
}

/** Checks that a client made by others pays once, and sees why a tool without a rule is refused. */
export async function expectPayment(
  call: (tool: string, given: object) => Promise<unknown> | undefined,
  { person }: Application,
  tools: Tools,
): Promise<void> {
  tools.paid = [];
  expect(await call("send_payment", { ...PAYMENT })).toMatchObject({
    content: [{ text: `paid for ${person.humanId}` }],
  });
  expect(await call("hidden", { ...PAYMENT })).toMatchObject({
    isError: true,
    _meta: { [AUTHORITY]: { code: "tool_without_rule" } },
  });
  expect(tools.paid.map(({ arguments: given }) => given)).toEqual([PAYMENT]);
}

import { randomUUID } from "node:crypto";
import { InMemoryTransport as Memory1 } from "@modelcontextprotocol/sdk/inMemory.js";
import { Server as LowLevel1 } from "@modelcontextprotocol/sdk/server/index.js";
import { McpServer as McpServer1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { WebStandardStreamableHTTPServerTransport as HttpServer1 } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import * as server2 from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";
import type { Agent } from "../../../src/sdk/agent/agent.ts";
import { createJournal } from "../../../src/sdk/proxy/journal.ts";
import { type Message, readClientMessage, readServerMessage } from "../../../src/sdk/proxy/messages.ts";
import { noRules, type ProxyRules, readRulesFile, toolHash } from "../../../src/sdk/proxy/rules_file.ts";
import { createSession, type ProxyParts } from "../../../src/sdk/proxy/session.ts";
import { createToolList } from "../../../src/sdk/proxy/tool_list.ts";
import { listen } from "../mcp/bank.ts";

/** The calls that reached the tools of a server without a guard. */
export type Reached = { tool: string; arguments: unknown; context: object };

type Wire = {
  start(): Promise<void>;
  send(message: never): Promise<void>;
  close(): Promise<void>;
  onmessage?: unknown;
  onclose?: unknown;
};

/** A dangerous schema on purpose, as in the guarded bank. */
const SHAPE = {
  to: z.string().default("mallory"),
  amount: z.coerce.number().default(999_999),
  currency: z.string().default("EUR"),
};
const TOOLS = { send_payment: SHAPE, hidden: SHAPE, health: {} };
const said = (text: string) => ({ content: [{ type: "text" as const, text }] });

type Act = (reached: Reached) => unknown;

function bare1(act: Act): McpServer1 {
  const mcp = new McpServer1({ name: "bank", version: "1" });
  for (const [tool, inputSchema] of Object.entries(TOOLS)) {
    mcp.registerTool(
      tool,
      { inputSchema, description: tool },
      async (given: object, context: object) =>
        ((await act({ tool, arguments: given, context })) as never) ?? said(`did ${tool}`),
    );
  }
  mcp.registerResource("notes", "bank://notes", {}, () => ({
    contents: [{ uri: "bank://notes", text: "secret" }],
  }));
  return mcp;
}

function bare2(act: Act): server2.McpServer {
  const mcp = new server2.McpServer({ name: "bank", version: "1" });
  for (const [tool, shape] of Object.entries(TOOLS)) {
    const inputSchema = z.object(shape as typeof SHAPE);
    mcp.registerTool(
      tool,
      { inputSchema, description: tool },
      async (given: object, context: object) =>
        ((await act({ tool, arguments: given, context })) as never) ?? said(`did ${tool}`),
    );
  }
  mcp.registerResource("notes", "bank://notes", {}, () => ({
    contents: [{ uri: "bank://notes", text: "secret" }],
  }));
  return mcp;
}

/** Servers without a guard: what a tool does is up to `act`. */
export const BARE_SERVERS = {
  "SDK 1.x": async (act: Act): Promise<Wire> => {
    const [near, far] = Memory1.createLinkedPair();
    await bare1(act).connect(far);
    return near as Wire;
  },
  "SDK 2.x": async (act: Act): Promise<Wire> => {
    const [near, far] = server2.InMemoryTransport.createLinkedPair();
    serveStdio(() => bare2(act), { transport: far });
    return near as Wire;
  },
} as const;

/** The same servers over HTTP. `seen` gets the headers of each request. */
export const HTTP_SERVERS = {
  /** Each session has its own transport, as servers of the old era do it. */
  "SDK 1.x": async (act: Act, seen: Headers[]) => {
    const transports = new Map<string, HttpServer1>();
    return listen(async (request) => {
      seen.push(request.headers);
      const id = request.headers.get("mcp-session-id");
      const known = id === null ? undefined : transports.get(id);
      if (known !== undefined) return known.handleRequest(request);
      if (id !== null) return new Response(null, { status: 404 });
      const transport = new HttpServer1({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => void transports.set(session, transport),
      });
      await bare1(act).connect(transport);
      return transport.handleRequest(request);
    });
  },
  "SDK 2.x": async (act: Act, seen: Headers[]) => {
    const handler = server2.createMcpHandler(() => bare2(act));
    return listen((request) => {
      seen.push(request.headers);
      return handler.fetch(request);
    });
  },
} as const;

/** Returns the low-level server of SDK 1.x, which a test lets do anything, and the proxy's end. */
export async function hostileServer(): Promise<{ server: LowLevel1; wire: Wire }> {
  const server = new LowLevel1({ name: "bank", version: "1" }, { capabilities: { tools: {} } });
  const [near, far] = Memory1.createLinkedPair();
  await server.connect(far);
  return { server, wire: near as Wire };
}

type Rule = Record<string, unknown>;

/** Builds rules as a rules file has them. The hashes are those of the tools that `wire` lists. */
export function rulesOf(
  tools: Record<string, Rule>,
  { mode = "enforce", methods = [], hashes }: { mode?: string; methods?: string[]; hashes: object },
): ProxyRules {
  const pinned = Object.entries(tools).map(([name, rule]) => [
    name,
    { ...rule, hash: Reflect.get(hashes, name) },
  ]);
  const file = { server: "bank", mode, methods, tools: Object.fromEntries(pinned) };
  return readRulesFile(Buffer.from(JSON.stringify(file)));
}

/** Puts a proxy between a client and `wire`. Every message passes through the real parser as bytes. */
export function throughProxy(
  wire: Wire,
  { rules = noRules(), decider, agent }: Partial<ProxyParts> & { agent?: Agent | undefined },
) {
  const lines: Record<string, unknown>[] = [];
  const journal = createJournal(rules.server, rules.mode, (line) => lines.push(JSON.parse(line)));
  const parts = { rules, journal, tools: createToolList(rules, journal), decider };
  const toServer = (message: unknown) => wire.send(message as never);
  const session = createSession(parts, agent, toServer);
  const sent: Message[] = [];
  const transport = {
    onmessage: undefined as undefined | ((message: unknown) => void),
    async start() {
      wire.onmessage = (message: unknown) => {
        const read = readServerMessage(Buffer.from(JSON.stringify(message)));
        if (typeof read === "string") throw new Error(read);
        const { forward, reply } = session.fromServer(read);
        if (forward !== undefined) transport.onmessage?.(JSON.parse(forward));
        if (reply !== undefined) void toServer(reply);
      };
      await wire.start();
    },
    async send(message: object) {
      const read = readClientMessage(Buffer.from(JSON.stringify(message)));
      if (typeof read === "string") throw new Error(read);
      const { forward, reply } = await session.fromClient(read);
      if (forward !== undefined) {
        sent.push(forward);
        await toServer(forward);
      }
      if (reply !== undefined) transport.onmessage?.(reply);
    },
    async close() {
      session.end();
      await wire.close();
    },
  };
  return { transport, lines, sent, journal, session };
}

/** Returns the hash of each tool that a client sees. */
export function hashesOf(tools: readonly object[]): Record<string, string | undefined> {
  return Object.fromEntries(tools.map((tool) => [Reflect.get(tool, "name"), toolHash(tool as never)]));
}

import { join } from "node:path";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { createAgent } from "../../../src/sdk/agent/agent.ts";
import { createGuard } from "../../../src/sdk/guard.ts";
import { AUTHORITY, withAuthority } from "../../../src/sdk/mcp/mcp.ts";
import { type Application, proofApi } from "../../proofs/application.ts";
import { npmPackages } from "../../support/outside_tools.ts";
import { PAYMENT, type Paid, SCOPE, SERVERS } from "./bank.ts";

const installed = await npmPackages("vercel-mcp-1", ["@ai-sdk/mcp@2.0.99", "zod@4.6.6"]);
if (installed.missing !== undefined) console.error(`SKIPPED, missing: ${installed.missing}`);

type Tool = { execute(input: object, options: object): Promise<unknown> };
type VercelClient = { tools(): Promise<Record<string, Tool>>; close(): Promise<void> };
type Vercel = { createMCPClient(config: { transport: unknown }): Promise<VercelClient> };

const world = proofApi();
const tools: { paid: Paid[] } = { paid: [] };
let app: Application;

beforeAll(async () => {
  app = await world.application();
});
beforeEach(() => {
  tools.paid = [];
});

test.skipIf(installed.missing !== undefined).each(["SDK 1.x over HTTP", "SDK 2.x over HTTP"] as const)(
  "Vercel's MCP client with the transport wrapper runs an allowed call at a server of %s",
  { timeout: 240_000 },
  async (name) => {
    const path = join(`${installed.folder}`, "node_modules/@ai-sdk/mcp/dist/index.js");
    const { createMCPClient } = (await import(path)) as Vercel;
    const { platform, agentId } = app;
    const guard = createGuard({ baseUrl: world.api.url, apiKey: platform.apiKey });
    const verifiers = { "mcp:bank": "own" } as const;
    const agent = createAgent({ baseUrl: world.api.url, apiKey: platform.apiKey, agentId, verifiers });
    const served = await SERVERS[name]({ guard, tools });
    const http = new StreamableHTTPClientTransport(new URL(served.url ?? ""));
    const options = { server: "bank", scopes: { send_payment: { scope: SCOPE, resource: "to" } } };
    const client = await createMCPClient({ transport: withAuthority(http, agent, options) });
    try {
      const found = await client.tools();
      const call = (tool: string) =>
        found[tool]?.execute({ ...PAYMENT }, { toolCallId: "call-1", messages: [] });
      expect(await call("send_payment")).toMatchObject({
        content: [{ text: `paid for ${app.person.humanId}` }],
      });
      expect(await call("hidden")).toMatchObject({
        isError: true,
        _meta: { [AUTHORITY]: { code: "tool_without_rule" } },
      });
      expect(tools.paid.map(({ arguments: given }) => given)).toEqual([PAYMENT]);
    } finally {
      await client.close();
      await served.stop();
    }
  },
);

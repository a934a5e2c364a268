import { join } from "node:path";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { beforeAll, test } from "vitest";
import { type Application, proofApi } from "../../proofs/application.ts";
import { npmPackages } from "../../support/outside_tools.ts";
import { bankFor, expectPayment, type Paid } from "./bank.ts";

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

test.skipIf(installed.missing !== undefined).each(["SDK 1.x over HTTP", "SDK 2.x over HTTP"] as const)(
  "Vercel's MCP client with the transport wrapper runs an allowed call at a server of %s",
  { timeout: 240_000 },
  async (name) => {
    const path = join(`${installed.folder}`, "node_modules/@ai-sdk/mcp/dist/index.js");
    const { createMCPClient } = (await import(path)) as Vercel;
    const served = await bankFor(app, world.api.url, name, tools);
    const http = new StreamableHTTPClientTransport(new URL(served.url ?? ""));
    const client = await createMCPClient({ transport: served.wrap(http) });
    try {
      const found = await client.tools();
      const call = (tool: string, given: object) =>
        found[tool]?.execute(given, { toolCallId: "call-1", messages: [] });
      await expectPayment(call, app, tools);
    } finally {
      await client.close();
      await served.stop();
    }
  },
);

import { randomUUID } from "node:crypto";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Agent, createAgent as CreateAgent } from "../../src/sdk/agent/agent.ts";
import { createGuard, guardFetch } from "../../src/sdk/guard.ts";
import { type Application, proofApi } from "../proofs/application.ts";
import { codeBlocks } from "../support/markdown.ts";
import { npmPackages } from "../support/outside_tools.ts";

const EXAMPLES = join(import.meta.dirname, "../../docs/examples/agent");
const PROGRAMS = ["vercel_ai.mjs", "langchain.mjs", "openai_agents.mjs"];
const ORDER = { item: "coal" };
const installed = await npmPackages("agent-frameworks-1", [
  "ai@6.0.326",
  "@langchain/core@1.4.0",
  "@openai/agents-core@0.20.0",
  "zod@4.6.6",
]);
if (installed.missing !== undefined) console.error(`SKIPPED, missing: ${installed.missing}`);

/** The example's tool for one framework. */
type Example = { orderTool(agent: Agent, shopUrl: string): never };

describe.skipIf(installed.missing !== undefined)("tools of agent frameworks", { timeout: 60_000 }, () => {
  const world = proofApi();
  let project: string;
  let application: Application;
  let agent: Agent;
  let shop: Server;
  let shopUrl: string;

  beforeAll(async () => {
    project = await mkdtemp(join(tmpdir(), "deputize-tools-"));
    const modules = join(`${installed.folder}`, "node_modules");
    await mkdir(join(project, "node_modules/deputize"), { recursive: true });
    for (const name of (await readdir(modules)).filter((each) => !each.startsWith("."))) {
      await symlink(join(modules, name), join(project, "node_modules", name));
    }
    const manifest = { name: "deputize", exports: { "./agent": "./agent.mjs" } };
    await writeFile(join(project, "node_modules/deputize/package.json"), JSON.stringify(manifest));
    const source = JSON.stringify(join(import.meta.dirname, "../../src/sdk/agent/agent.ts"));
    await writeFile(join(project, "node_modules/deputize/agent.mjs"), `export * from ${source};`);
    for (const name of PROGRAMS) await copyFile(join(EXAMPLES, name), join(project, name));
    application = await world.application(["data:read"]);
    const { platform, agentId } = application;
    const service = { baseUrl: world.api.url, apiKey: platform.apiKey };
    const rule = { requiredScope: "data:read", operation: true } as const;
    const order = guardFetch(createGuard(service), rule, (_, { payload }) =>
      Response.json({ ordered: payload }),
    );
    shop = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { method = "GET", url = "/" } = request;
      const headers = request.headers as Record<string, string>;
      const answer = await order(
        new Request(`${shopUrl}${url}`, { method, headers, body: Buffer.concat(chunks) }),
      );
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
    });
    await new Promise<void>((listening) => shop.listen(0, "127.0.0.1", listening));
    shopUrl = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
    const { createAgent } = await library<{ createAgent: typeof CreateAgent }>("deputize/agent.mjs");
    agent = createAgent({ ...service, agentId, verifiers: { [shopUrl]: "own" } });
  });
  afterAll(async () => {
    shop?.close();
    await rm(project, { recursive: true, force: true });
  });

  const load = async <T>(name: string) => (await import(/* @vite-ignore */ join(project, name))) as T;
  const library = <T>(path: string) => load<T>(`node_modules/${path}`);

  async function toolOf(program: string): Promise<never> {
    return (await load<Example>(program)).orderTool(agent, shopUrl);
  }

  test("the page for agent authors shows these tools", async () => {
    const shown = (await codeBlocks("docs/agents.md")).map(({ code }) => code);
    for (const name of PROGRAMS) expect(shown).toContain(await readFile(join(EXAMPLES, name), "utf8"));
  });

  /** Lets a scripted model call the tool once, and returns the tool's result as the model reads it. */
  const frameworks: Record<string, (callId: string) => Promise<string>> = {
    "Vercel AI SDK": async (toolCallId) => {
      const { generateText, stepCountIs } = await library<VercelAi>("ai/dist/index.mjs");
      const { MockLanguageModelV3 } = await library<VercelAiTest>("ai/dist/test/index.mjs");
      const order = await toolOf("vercel_ai.mjs");
      const finish = {
        finishReason: { unified: "stop" },
        usage: { inputTokens: {}, outputTokens: {} },
        warnings: [],
      };
      const call = { type: "tool-call", toolCallId, toolName: "order", input: JSON.stringify(ORDER) };
      const model = new MockLanguageModelV3({
        doGenerate: [
          { ...finish, content: [call] },
          { ...finish, content: [{ type: "text", text: "done" }] },
        ],
      });
      const { steps } = await generateText({
        model,
        tools: { order },
        prompt: "Order coal",
        stopWhen: stepCountIs(2),
      });
      const [, second] = model.doGenerateCalls;
      expect(steps).toHaveLength(2);
      return JSON.stringify(second?.prompt.at(-1));
    },
    LangChain: async (id) => {
      const order = (await toolOf("langchain.mjs")) as LangChainTool;
      const message = await order.invoke({ type: "tool_call", id, name: "order", args: ORDER });
      return String(message.content);
    },
    "OpenAI Agents": async (callId) => {
      const core = await library<OpenAiAgents>("@openai/agents-core/dist/index.mjs");
      core.setTracingDisabled(true);
      const read: unknown[] = [];
      const model = {
        async getResponse({ input }: { input: unknown[] }) {
          read.push(input.at(-1));
          const call = {
            type: "function_call",
            callId,
            name: "order",
            status: "completed",
            arguments: JSON.stringify(ORDER),
          };
          const text = {
            type: "message",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: "done" }],
          };
          return { usage: new core.Usage(), output: [read.length === 1 ? call : text] };
        },
      };
      const tools = [await toolOf("openai_agents.mjs")];
      await core.run(new core.Agent({ name: "shopper", instructions: "", model, tools }), "Order coal");
      return JSON.stringify(read.at(-1));
    },
  };

  test.each(Object.keys(frameworks))("%s runs a tool once for each call of the model", async (name) => {
    const use = frameworks[name];
    const id = randomUUID();
    expect(await use?.(id)).toMatch(/ordered.*item.*coal/);
    const again = await Promise.resolve(use?.(id)).catch(String);
    expect(again).toContain("This invocation was decided before");
  });
});

type VercelAi = {
  generateText(options: object): Promise<{ steps: unknown[] }>;
  stepCountIs(count: number): unknown;
};
type VercelAiTest = {
  MockLanguageModelV3: new (parts: object) => { doGenerateCalls: { prompt: unknown[] }[] };
};
type LangChainTool = { invoke(call: object): Promise<{ content: unknown }> };
type OpenAiAgents = {
  setTracingDisabled(isDisabled: boolean): void;
  Usage: new () => object;
  Agent: new (parts: object) => object;
  run(agent: object, input: string): Promise<unknown>;
};

import { expect, test } from "vitest";
import { createAgent } from "../../../src/sdk/agent/agent.ts";
import { createJournal } from "../../../src/sdk/proxy/journal.ts";
import { createDecider } from "../../../src/sdk/proxy/proxy.ts";
import { proofApi } from "../../proofs/application.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { listen, PAYMENT, SCOPE } from "../mcp/bank.ts";
import { hashesOf, hostileServer, rulesOf, throughProxy } from "./proxied.ts";

const world = proofApi();
const TOOL = { name: "send_payment", inputSchema: { type: "object" } };

test("an allowed call takes one request of the server, and two calls of the service before it", async () => {
  const app = await world.application();
  const paths: string[] = [];
  const counted = await listen(async ({ url, method, headers, body }) => {
    const { pathname } = new URL(url);
    paths.push(pathname.slice(pathname.lastIndexOf("/") + 1));
    const sent = method === "GET" ? null : await new Response(body).text();
    return fetch(`${world.api.url}${pathname}`, { method, headers, body: sent });
  });
  const keys = await Promise.all([
    createKey(world.api, app.platform, { role: "agent", agent_id: app.agentId }),
    createKey(world.api, app.platform, { role: "verify" }),
  ]);
  const [agentKey = "", verifyKey = ""] = keys.map(({ body }) => String(body.api_key));
  const baseUrl = counted.url.origin;
  const quiet = createJournal("bank", "enforce", () => undefined);
  const decider = createDecider({ service: { baseUrl, word: undefined }, verifyKey: () => verifyKey }, quiet);
  const agent = createAgent({ baseUrl, apiKey: agentKey, verifiers: {} });
  const rules = rulesOf({ send_payment: { scope: SCOPE } }, { hashes: hashesOf([TOOL]) });
  const { server, wire } = await hostileServer();
  const asked: string[] = [];
  server.fallbackRequestHandler = async ({ method }) => {
    asked.push(method);
    return method === "tools/list" ? { tools: [TOOL] } : { content: [] };
  };
  const { transport } = throughProxy(wire, { rules, decider, agent });
  await transport.start();
  for (const id of [1, 2]) {
    [paths.length, asked.length] = [0, 0];
    const params = { name: "send_payment", arguments: PAYMENT };
    await transport.send({ jsonrpc: "2.0", id, method: "tools/call", params });
    await expect.poll(() => paths, { timeout: 10_000 }).toContain("outcome");
  }
  expect(paths).toEqual(["present", "verify", "outcome"]);
  expect(asked).toEqual(["tools/call"]);
  await counted.stop();
});

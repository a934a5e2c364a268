import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createAgent, Denied } from "deputize/agent";
import { withAuthority } from "deputize/mcp";

const { BASE_URL, AGENT_KEY, AGENT_ID, VERIFIER_ID, VERIFY_KEY, WORKSPACE_ID } = process.env;
const agent = createAgent({
  baseUrl: BASE_URL,
  apiKey: AGENT_KEY,
  agentId: AGENT_ID,
  verifiers: { "mcp:bank": { verifierId: VERIFIER_ID, workspaceId: WORKSPACE_ID } },
});
const scopes = { send_payment: { scope: "payments:send", resource: "to" } };
const server = { command: process.execPath, args: ["server.mjs"], env: { BASE_URL, VERIFY_KEY } };
const client = new Client({ name: "agent", version: "1.0.0" });
await client.connect(withAuthority(new StdioClientTransport(server), agent, { server: "bank", scopes }));

try {
  const payment = { to: "bob", amount: 5, currency: "EUR" };
  const { content } = await client.callTool({ name: "send_payment", arguments: payment });
  console.log(content[0].text);
} catch (error) {
  if (!(error instanceof Denied)) throw error;
  console.log(error.name, error.code);
}
await client.close();

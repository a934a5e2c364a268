import { createAgent, Denied } from "deputize/agent";

const { BASE_URL, AGENT_KEY, AGENT_ID, SHOP_URL, VERIFIER_ID, WORKSPACE_ID } = process.env;
const agent = createAgent({
  baseUrl: BASE_URL,
  apiKey: AGENT_KEY,
  agentId: AGENT_ID,
  verifiers: { [SHOP_URL]: { verifierId: VERIFIER_ID, workspaceId: WORKSPACE_ID } },
});

try {
  const response = await agent.fetch(`${SHOP_URL}/orders`, { scope: "data:read", body: { item: "coal" } });
  console.log(response.status, await response.text());
} catch (error) {
  if (!(error instanceof Denied)) throw error;
  console.log(error.name, error.code);
}

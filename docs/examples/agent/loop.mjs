import { randomUUID } from "node:crypto";
import { AgentError, createAgent } from "deputize/agent";

const { BASE_URL, AGENT_KEY, AGENT_ID, SHOP_URL, VERIFIER_ID, WORKSPACE_ID } = process.env;
const agent = createAgent({
  baseUrl: BASE_URL,
  apiKey: AGENT_KEY,
  agentId: AGENT_ID,
  verifiers: { [SHOP_URL]: { verifierId: VERIFIER_ID, workspaceId: WORKSPACE_ID } },
});

const tools = {
  order: agent.tool(async ({ item }, call) => {
    const response = await call.fetch(`${SHOP_URL}/orders`, { body: { item } });
    return response.json();
  }, "data:read"),
};

/** Stands for your model: it answers with the next tool call, or with undefined when it is done. */
const script = [{ id: "1", tool: "order", input: { item: "coal" } }];
const askModel = async (results) => script[results.length];

const run = randomUUID();
const results = [];
for (let call = await askModel(results); call !== undefined; call = await askModel(results)) {
  try {
    results.push(await tools[call.tool](call.input, { invocationId: `${run}.${call.id}` }));
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    results.push({ error: error.message });
  }
}
console.log(JSON.stringify(results));

import { tool } from "@openai/agents-core";
import { AgentError } from "deputize/agent";
import { z } from "zod";

export function orderTool(agent, shopUrl) {
  const order = agent.tool(async ({ item }, call) => {
    const response = await call.fetch(`${shopUrl}/orders`, { body: { item } });
    return response.json();
  }, "data:read");
  return tool({
    name: "order",
    description: "Orders an item from the shop",
    parameters: z.object({ item: z.string() }),
    execute: (input, _context, details) => order(input, { invocationId: details?.toolCall?.callId }),
    // By default, the model reads only that an error occurred, and that it should try again.
    errorFunction: (_context, error) => (error instanceof AgentError ? error.message : "The tool failed."),
  });
}

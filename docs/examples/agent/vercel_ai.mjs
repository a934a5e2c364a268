import { tool } from "ai";
import { z } from "zod";

export function orderTool(agent, shopUrl) {
  const order = agent.tool(async ({ item }, call) => {
    const response = await call.fetch(`${shopUrl}/orders`, { body: { item } });
    return response.json();
  }, "data:read");
  return tool({
    description: "Orders an item from the shop",
    inputSchema: z.object({ item: z.string() }),
    execute: (input, { toolCallId }) => order(input, { invocationId: toolCallId }),
  });
}

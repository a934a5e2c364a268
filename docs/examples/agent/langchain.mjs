import { tool } from "@langchain/core/tools";
import { z } from "zod";

export function orderTool(agent, shopUrl) {
  const order = agent.tool(async ({ item }, call) => {
    const response = await call.fetch(`${shopUrl}/orders`, { body: { item } });
    return response.json();
  }, "data:read");
  return tool((input, { toolCall }) => order(input, { invocationId: toolCall?.id }), {
    name: "order",
    description: "Orders an item from the shop",
    schema: z.object({ item: z.string() }),
  });
}

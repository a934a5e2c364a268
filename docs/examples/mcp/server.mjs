import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createGuard } from "deputize/guard";
import { authorityOf, guardTools } from "deputize/mcp";
import { z } from "zod";

const { BASE_URL, VERIFY_KEY } = process.env;
const guard = createGuard({ baseUrl: BASE_URL, apiKey: VERIFY_KEY });
const rules = {
  send_payment: { scope: "payments:send", amount: "amount", currency: "currency", resource: "to" },
  health: { open: true },
};

serveStdio(() => {
  const mcp = guardTools(new McpServer({ name: "bank", version: "1.0.0" }), guard, rules, { server: "bank" });
  const inputSchema = z.object({ to: z.string(), amount: z.number(), currency: z.string() });
  mcp.registerTool("send_payment", { inputSchema }, ({ to, amount, currency }, context) => {
    const { humanId } = authorityOf(context);
    return { content: [{ type: "text", text: `${amount} ${currency} to ${to} for ${humanId}` }] };
  });
  mcp.registerTool("health", {}, () => ({ content: [{ type: "text", text: "healthy" }] }));
  return mcp;
});

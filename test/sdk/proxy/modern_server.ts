import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

/** A server of the newest revision of the protocol, without a guard. */
serveStdio(() => {
  const mcp = new McpServer({ name: "modern bank", version: "1" });
  mcp.registerTool("read_balance", {}, () => ({ content: [{ type: "text", text: "5 EUR" }] }));
  mcp.registerTool("send_payment", {}, () => ({ content: [{ type: "text", text: "paid" }] }));
  return mcp;
});

import type { Command } from "commander";

/** Declares `deputize mcp-proxy`. Its own code reads the options, because the npm package has the same. */
export function declareMcpProxy(program: Command): void {
  program
    .command("mcp-proxy")
    .description("Run an MCP server, and let its tools act only with a person's authority")
    .argument("[words...]", "deputize mcp-proxy --help lists the options")
    .helpOption(false)
    .allowUnknownOption()
    .action(async () => {
      const [{ runMcpProxy }, { environment }] = await Promise.all([
        import("../sdk/proxy/proxy.ts"),
        import("../sdk/proxy/config.ts"),
      ]);
      await runMcpProxy(process.argv.slice(process.argv.indexOf("mcp-proxy") + 1), environment);
    });
}

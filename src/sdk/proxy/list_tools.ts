import { spawn } from "node:child_process";
import { isPlain } from "../mcp/rules.ts";
import { linesOf } from "./lines.ts";
import { type Message, readServerMessage } from "./messages.ts";
import type { ListedTool } from "./rules_file.ts";

/** The tools of a server, and the name that it gives to itself. */
export type Listed = { tools: ListedTool[]; serverName: unknown };

const REVISION = "2025-11-25";
const NEWEST_REVISION = "2026-07-28";
const TIMEOUT_MS = 60_000;
const MOST_PAGES = 100;

/**
 * Starts a server, reads its whole list of tools, and ends it. First asks as clients of the old era do, and
 * without sessions if the server refuses. Throws an error with a sentence for the user.
 */
export async function listToolsOf(
  [program = "", ...args]: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<Listed> {
  const child = spawn(program, args, { env, stdio: ["pipe", "pipe", "inherit"] });
  const failed = new Promise<never>((_, reject) => {
    const fail = (why: string) => () => reject(new Error(why));
    child.once("error", fail("The server did not start."));
    child.once("close", fail("The server ended before it listed its tools."));
    setTimeout(fail("The server did not list its tools in a minute."), TIMEOUT_MS).unref();
  });
  failed.catch(() => undefined);
  child.stdin.on("error", () => undefined);
  const lines = linesOf(child.stdout);
  const send = (message: Message) => child.stdin.write(`${JSON.stringify(message)}\n`);
  let asked = 0;

  async function ask(method: string, params: Readonly<Record<string, unknown>>): Promise<Message> {
    const id = ++asked;
    send({ jsonrpc: "2.0", id, method, params });
    for (;;) {
      const { value: line } = await Promise.race([lines.next(), failed]);
      if (line === undefined) return failed;
      const read = line === "too_large" ? line : readServerMessage(line);
      if (typeof read !== "string" && read.message.id === id && read.message.method === undefined) {
        return read.message;
      }
    }
  }

  try {
    const clientInfo = { name: "deputize mcp-proxy", version: "1" };
    const { result: started } = await ask("initialize", {
      ...{ protocolVersion: REVISION, capabilities: {}, clientInfo },
    });
    if (started !== undefined) send({ jsonrpc: "2.0", method: "notifications/initialized" });
    const meta = {
      "io.modelcontextprotocol/protocolVersion": NEWEST_REVISION,
      "io.modelcontextprotocol/clientInfo": clientInfo,
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const modern = started === undefined ? { _meta: meta } : {};
    const tools: ListedTool[] = [];
    let cursor: unknown;
    for (let page = 0; page < MOST_PAGES; page++) {
      const { result = {} } = await ask("tools/list", { ...modern, ...(cursor !== undefined && { cursor }) });
      if (!Array.isArray(result.tools)) throw new Error("The server lists no tools.");
      tools.push(...result.tools.filter((tool) => isPlain(tool) && typeof tool.name === "string"));
      cursor = result.nextCursor;
      if (typeof cursor !== "string") break;
    }
    const { serverInfo } = started ?? {};
    return { tools, serverName: isPlain(serverInfo) ? serverInfo.name : undefined };
  } finally {
    child.kill();
  }
}

import { spawn } from "node:child_process";
import { isPlain } from "../mcp/rules.ts";
import { messagesOf, send } from "./http/upstream.ts";
import { linesOf } from "./lines.ts";
import { type Message, readServerMessage } from "./messages.ts";
import type { ListedTool } from "./rules_file.ts";

/** The tools of a server, and the name that it gives to itself. */
export type Listed = { tools: ListedTool[]; serverName: unknown };

/** A connection to a server, for one question after the other. */
type Line = {
  /** Sends a message. Returns the response to a request. */
  send(message: Message): Promise<Message | undefined>;
  close(): void;
};

const REVISION = "2025-11-25";
const NEWEST_REVISION = "2026-07-28";
const CLIENT = { name: "deputize mcp-proxy", version: "1" };
const TIMEOUT_MS = 60_000;
const MOST_PAGES = 100;
/** Requests without sessions name their revision. */
const MODERN = {
  "io.modelcontextprotocol/protocolVersion": NEWEST_REVISION,
  "io.modelcontextprotocol/clientInfo": CLIENT,
  "io.modelcontextprotocol/clientCapabilities": {},
};

/**
 * Reads the whole list of a server that it starts, or of a server at an address. First asks as clients of the
 * old era do, and without a session if the server refuses. Throws an error with a sentence for the user.
 */
export async function listToolsOf(
  server: readonly string[] | URL,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Listed> {
  const line = server instanceof URL ? httpLine(server) : stdioLine(server, env);
  let id = 0;
  const ask = async (method: string, params: Readonly<Record<string, unknown>>) =>
    (await line.send({ jsonrpc: "2.0", id: ++id, method, params })) ?? { jsonrpc: "2.0" };
  try {
    const { result: started } = await ask("initialize", {
      ...{ protocolVersion: REVISION, capabilities: {}, clientInfo: CLIENT },
    });
    if (started !== undefined) await line.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    const modern = started === undefined ? { _meta: MODERN } : {};
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
    line.close();
  }
}

function stdioLine(
  [program = "", ...args]: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Line {
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
  return {
    async send(message) {
      child.stdin.write(`${JSON.stringify(message)}\n`);
      while (message.id !== undefined) {
        const { value: line } = await Promise.race([lines.next(), failed]);
        if (line === undefined) return failed;
        const answer = line === "too_large" ? undefined : answerIn(line, message.id);
        if (answer !== undefined) return answer;
      }
      return undefined;
    },
    close: () => void child.kill(),
  };
}

function httpLine(url: URL): Line {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const headers: Record<string, string> = {};
  return {
    async send(message) {
      const { id, method = "", params } = message;
      headers["mcp-method"] = method;
      if (isPlain(params?._meta)) headers["mcp-protocol-version"] = NEWEST_REVISION;
      const body = JSON.stringify(message);
      const answered = await send(url, { method: "POST", headers, body, signal }).catch(() => {
        throw new Error("The server did not answer.");
      });
      const { "mcp-session-id": session } = answered.headers;
      if (typeof session === "string") headers["mcp-session-id"] = session;
      for await (const bytes of messagesOf(answered)) {
        const answer = id === undefined ? undefined : answerIn(bytes, id);
        if (answer !== undefined) return answer;
      }
      return undefined;
    },
    close: () => undefined,
  };
}

function answerIn(bytes: Uint8Array, id: Message["id"]): Message | undefined {
  const read = readServerMessage(bytes);
  const isAnswer = typeof read !== "string" && read.message.id === id && read.message.method === undefined;
  return isAnswer ? read.message : undefined;
}

import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AUTHORITY } from "../../../src/sdk/mcp/mcp.ts";
import { proofApi } from "../../proofs/application.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { npmPackages, pythonPackages, ran } from "../../support/outside_tools.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PROXY = join(ROOT, "src/sdk/proxy/main.ts");
const world = proofApi();
const [node, python] = await Promise.all([
  npmPackages("mcp-servers-1", [
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-everything@2026.8.31",
  ]),
  pythonPackages("mcp-servers-python-1", ["mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"]),
]);
for (const { missing } of [node, python])
  if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

let folder: string;
let settings: Record<string, string>;

type Case = {
  command: (place: string) => string[];
  env?: Record<string, string>;
  /** A call that the person's certificate permits, and a call beyond it. */
  allowed: (place: string) => { name: string; arguments: Record<string, unknown> };
  denied: (place: string) => { name: string; arguments: Record<string, unknown> };
  says: string;
};

const npm = (name: string) =>
  join(`${node.folder}`, "node_modules/@modelcontextprotocol", name, "dist/index.js");
const pythonEnv = { PYTHONPATH: `${python.folder}` };

/** Unmodified servers of the old era, and a server of the new era that this project has. */
const CASES: Record<string, Case> = {
  "server-filesystem": {
    command: (place) => [process.execPath, npm("server-filesystem"), place],
    allowed: (place) => ({ name: "read_text_file", arguments: { path: join(place, "note.txt") } }),
    denied: (place) => ({ name: "write_file", arguments: { path: join(place, "new.txt"), content: "x" } }),
    says: "a note",
  },
  "server-everything": {
    command: () => [process.execPath, npm("server-everything")],
    allowed: () => ({ name: "echo", arguments: { message: "hello" } }),
    denied: () => ({ name: "toggle-simulated-logging", arguments: {} }),
    says: "hello",
  },
  "mcp-server-time": {
    command: () => ["python3", "-m", "mcp_server_time", "--local-timezone", "UTC"],
    env: pythonEnv,
    allowed: () => ({ name: "get_current_time", arguments: { timezone: "UTC" } }),
    denied: () => ({ name: "unknown_tool", arguments: {} }),
    says: "UTC",
  },
  "mcp-server-git": {
    command: (place) => ["python3", "-m", "mcp_server_git", "--repository", place],
    env: pythonEnv,
    allowed: (place) => ({ name: "git_status", arguments: { repo_path: place } }),
    denied: (place) => ({ name: "git_add", arguments: { repo_path: place, files: ["note.txt"] } }),
    says: "note.txt",
  },
  "a server of the new era": {
    command: () => [process.execPath, join(ROOT, "test/sdk/proxy/modern_server.ts")],
    allowed: () => ({ name: "read_balance", arguments: {} }),
    denied: () => ({ name: "send_payment", arguments: {} }),
    says: "5 EUR",
  },
};

beforeAll(async () => {
  const app = await world.application(["data:read"]);
  folder = await mkdtemp(join(tmpdir(), "deputize-servers-"));
  settings = { DEPUTIZE_URL: world.api.url };
  for (const wish of [{ role: "agent", agent_id: app.agentId }, { role: "verify" }]) {
    const { body } = await createKey(world.api, app.platform, wish);
    const file = join(folder, `${wish.role}.key`);
    await writeFile(file, String(body.api_key));
    settings[`DEPUTIZE_${wish.role.toUpperCase()}_KEY_FILE`] = file;
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe.skipIf(node.missing !== undefined || python.missing !== undefined)("the proxy before", () => {
  test.concurrent.each(Object.entries(CASES))(
    "%s accepts its tools, and enforces them",
    async (name, each) => {
      const place = join(folder, name.replaceAll(" ", "-"));
      await mkdir(place);
      await writeFile(join(place, "note.txt"), "a note");
      if (name === "mcp-server-git") execFileSync("git", ["init", "--quiet", place]);
      const rulesFile = join(folder, `${name}.json`);
      const env = {
        PATH: `${process.env.PATH}`,
        HOME: folder,
        ...settings,
        ...each.env,
        DEPUTIZE_MCP_RULES: rulesFile,
      };
      const args = (...options: string[]) => [PROXY, "mcp-proxy", ...options, "--", ...each.command(place)];
      const accepted = await ran(process.execPath, args("--accept"), { env, ms: 120_000 });
      expect(accepted.code, accepted.said).toBe(0);
      // The person corrects the suggestion: their certificate has only data:read.
      const suggested = (await readFile(rulesFile, "utf8")).replaceAll("files:read", "data:read");
      const rules = JSON.parse(suggested);
      await writeFile(rulesFile, JSON.stringify({ ...rules, mode: "enforce" }));

      const client = new Client({ name: "host", version: "1" }, { versionNegotiation: { mode: "auto" } });
      await client.connect(
        new StdioClientTransport({ command: process.execPath, args: args(), env, stderr: "ignore" }),
      );
      try {
        const { tools } = await client.listTools();
        expect(tools.map((tool) => tool.name).sort()).toEqual(Object.keys(rules.tools).sort());
        const answer = await client.callTool(each.allowed(place));
        expect(JSON.stringify(answer)).toContain(each.says);
        expect(answer).not.toHaveProperty("isError", true);
        const denied = await client.callTool(each.denied(place));
        expect(denied).toMatchObject({
          isError: true,
          _meta: {
            [AUTHORITY]: {
              code: expect.stringMatching(/^(not_delegated|tool_without_rule|no_active_delegation)$/),
            },
          },
        });
      } finally {
        await client.close();
      }
    },
  );
});

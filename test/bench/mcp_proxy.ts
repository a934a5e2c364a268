import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { toolHash } from "../../src/sdk/proxy/rules_file.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { type Agent, openAgents } from "./memory/agents.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { percentiles } from "./timing.ts";
import { startBenchVault } from "./vault/place.ts";

/**
 * Measures calls of a tool on stdio, one after the other: without a proxy, and through `deputize mcp-proxy`.
 * An open tool shows the cost of the proxy alone. Run `node test/bench/mcp_proxy.ts`.
 */
const ROUNDS = 5;
const CALLS = 300;
const PROXIED = ["enforce, open tool", "observe", "enforce"];
const PROXY = join(import.meta.dirname, "../../src/sdk/proxy/main.ts");
const TOOLS = ["read", "open"].map((name) => ({ name, inputSchema: { type: "object" } }));
const SERVER = `
const { createInterface } = require("node:readline");
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  const result = method === "tools/list" ? { tools: ${JSON.stringify(TOOLS)} } : { content: [] };
  if (id !== undefined) process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
}).on("close", () => process.exit(0));
`;

await withBenchDatabase({}, async ({ db, url, folder, postgres }) => {
  const sealingKey = randomBytes(32);
  const vault = await startBenchVault(postgres, folder, "vault");
  try {
    const [agent] = await openAgents({ db, vault: vault.client }, 1);
    const api = await startApiProcess(folder, url, sealingKey, {
      VAULT_URL: vault.url,
      VAULT_CA_FILE: join(vault.config.tlsDir, "ca.pem"),
      VAULT_CERT_FILE: join(vault.config.tlsDir, "api.pem"),
      VAULT_KEY_FILE: join(vault.config.tlsDir, "api.key"),
      PRESENT_PER_MINUTE: "10000000",
    });
    try {
      const env = await settingsOf(folder, `http://127.0.0.1:${api.port}`, agent as Agent);
      const record = await recordRounds(ROUNDS, async (round) => {
        await measure(round, folder, { name: "direct" });
        await measure(round, folder, { name: "enforce, open tool", tool: "open", mode: "enforce", env });
        await measure(round, folder, { name: "observe", mode: "observe", env });
        await measure(round, folder, { name: "enforce", mode: "enforce", env });
      });
      report({ figures: record.figures(), ratios: PROXIED.flatMap(ratiosOf) });
    } finally {
      await api.stop();
    }
  } finally {
    await vault.close();
  }
});

function ratiosOf(way: string): Ratio[] {
  return ["p50", "p99"].map((value) => ({
    name: `${way} / direct: ${value}`,
    over: `${way}: ${value}`,
    under: `direct: ${value}`,
  }));
}

/** Creates the keys, the rules files and the server, and returns the environment of the proxy. */
async function settingsOf(folder: string, baseUrl: string, { apiKey, connectionId, agentId }: Agent) {
  const env: Record<string, string> = { DEPUTIZE_URL: baseUrl };
  for (const [role, more] of [
    ["agent", { agent_id: agentId }],
    ["verify", {}],
  ] as const) {
    const made = await fetch(`${baseUrl}/v1/service/connections/${connectionId}/keys`, {
      method: "POST",
      headers: { "x-service-api-key": apiKey, "content-type": "application/json" },
      body: JSON.stringify({ role, ...more }),
    });
    const { api_key: key } = (await made.json()) as { api_key?: string };
    if (key === undefined) throw new Error(`there is no ${role} key`);
    const file = join(folder, `${role}.key`);
    await writeFile(file, key);
    env[`DEPUTIZE_${role.toUpperCase()}_KEY_FILE`] = file;
  }
  const [read, open] = TOOLS.map(toolHash);
  const tools = { read: { scope: "data:read", hash: read }, open: { open: true, hash: open } };
  for (const mode of ["observe", "enforce"]) {
    await writeFile(join(folder, `${mode}.json`), JSON.stringify({ server: "bench", mode, tools }));
  }
  await writeFile(join(folder, "server.cjs"), SERVER);
  return env;
}

type Way = { name: string; tool?: string; mode?: string; env?: Record<string, string> };

async function measure(
  record: FigureRecord,
  folder: string,
  { name, tool = "read", mode, env }: Way,
): Promise<void> {
  const proxy = mode === undefined ? [] : [PROXY, "mcp-proxy", "--rules", join(folder, `${mode}.json`), "--"];
  const command = proxy.length > 0 ? [...proxy, process.execPath, "server.cjs"] : ["server.cjs"];
  const child = spawn(process.execPath, command, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const durations: number[] = [];
  for (let id = 0; id < CALLS; id++) {
    const params = { name: tool, arguments: { path: `/${id}` } };
    const start = performance.now();
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params })}\n`);
    const { value } = await answers.next();
    durations.push(performance.now() - start);
    const isRefused = value === undefined || JSON.parse(value).result?.isError === true;
    if (isRefused) throw new Error(`${name}: ${value}`);
  }
  child.stdin.end();
  // The first calls start the connections.
  const { p50, p99 } = percentiles(durations.slice(CALLS / 10));
  record.add(`${name}: p50`, "ms", p50);
  record.add(`${name}: p99`, "ms", p99);
}

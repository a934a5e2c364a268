import { once } from "node:events";
import { constants, copyFile, mkdir } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import Koa from "koa";
import readBody from "raw-body";
import { shellWord } from "../../proofs/try/curl.ts";
import { authorityOf, createGuard, guardKoa } from "../../sdk/guard.ts";
import { writeAtomically } from "../state_folder.ts";
import { type Access, type AgentLines, isComplete, type KnownAccess } from "./access_file.ts";
import { USED_SCOPE } from "./steps.ts";
import { verifyKeyOf } from "./verify_key.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const AGENT = join(ROOT, "docs/examples/agent/agent.mjs");
const PYTHON_AGENT = join(ROOT, "docs/examples/order_agent.py");
const HOST = "127.0.0.1";
const VALUES = "values.env";
const BODY_LIMIT = 64 * 1024;

/** A shop on loopback, and the lines that run agents, which order from it. */
export type RunningShop = AgentLines & { close(): Promise<void> };

/** The agent's key. `report` gets the problem if no verify key can be made. */
type Given = { agentKey: string | undefined; report(problem: unknown): void };

/**
 * Starts a shop that accepts an order only with a proof for exactly this order, and writes agents that order
 * from it. The agents use `agentKey`, and the shop uses a verify key. The connection's key replaces a key
 * that does not exist. Returns undefined if there is no delegation to try.
 */
export async function startAgents(
  folder: string,
  access: KnownAccess,
  { agentKey, report }: Given,
): Promise<RunningShop | undefined> {
  if (!isComplete(access)) return undefined;
  const agents = join(folder, "agents");
  const made = await verifyKeyOf(access, join(agents, VALUES)).catch(report);
  const keys = { AGENT_KEY: agentKey ?? access.api_key, VERIFY_KEY: made ?? access.api_key };
  const { url, close } = await startShop(access, keys.VERIFY_KEY);
  await writeAgents(agents, access, keys);
  return { ...linesOf(agents, url), close };
}

async function startShop({ base_url: baseUrl }: Access, apiKey: string) {
  const app = new Koa();
  app.silent = true;
  app.use(async (context, next) => {
    if (context.method !== "POST" || context.path !== "/orders") return;
    const text = await readBody(context.req, { limit: BODY_LIMIT, encoding: "utf8" });
    try {
      Object.assign(context.request, { body: JSON.parse(text) });
    } catch {
      context.throw(400, "The body is not JSON");
    }
    await next();
  });
  app.use(guardKoa(createGuard({ baseUrl, apiKey }), { requiredScope: USED_SCOPE, operation: true }));
  app.use((context) => {
    const { humanId, payload } = authorityOf(context);
    context.body = { ...Object(payload), for: humanId };
  });
  const server = createServer(app.callback());
  await once(server.listen(0, HOST), "listening");
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}`,
    async close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/**
 * Writes a folder with two example agents, and the values that agents and applications need (mode 0600).
 * Keeps agents that exist, because the reader may have changed them. The address of the shop is not in the
 * file: a reader's agent would otherwise order there, and not at the reader's own application.
 */
async function writeAgents(
  agents: string,
  access: Access,
  keys: { AGENT_KEY: string; VERIFY_KEY: string },
): Promise<void> {
  const library = join(agents, "node_modules/deputize");
  await mkdir(library, { recursive: true });
  const entry = JSON.stringify(pathToFileURL(join(ROOT, "src/sdk/agent/agent.ts")));
  const manifest = { name: "deputize", type: "module", exports: { "./agent": "./agent.js" } };
  await writeAtomically(join(library, "agent.js"), `export * from ${entry};\n`);
  await writeAtomically(join(library, "package.json"), JSON.stringify(manifest));
  await writeAtomically(join(agents, "package.json"), JSON.stringify({ private: true }));
  for (const agent of [AGENT, PYTHON_AGENT]) await copyNew(agent, join(agents, basename(agent)));
  const values = {
    BASE_URL: access.base_url,
    ...keys,
    CONNECTION_ID: access.connection_id,
    AGENT_ID: access.agent_id,
    VERIFIER_ID: access.verifier_id,
    WORKSPACE_ID: access.workspace_id,
  };
  const lines = Object.entries(values).map(([name, value]) => `${name}=${value}\n`);
  await writeAtomically(join(agents, VALUES), lines.join(""));
}

function linesOf(agents: string, shopUrl: string): AgentLines {
  const enter = `cd ${shellWord(agents)}`;
  const install = `python3 -m venv .venv && .venv/bin/pip install -q ${shellWord(join(ROOT, "src/sdk/python"))}`;
  // The values take precedence over variables of the reader's shell, which `--env-file` would keep.
  const run = `env $(cat ${VALUES}) SHOP_URL=${shopUrl}`;
  return {
    javascript: `(${enter} && ${run} ${shellWord(process.execPath)} ${basename(AGENT)})`,
    python: `(${enter} && ${install} && ${run} .venv/bin/python ${basename(PYTHON_AGENT)})`,
  };
}

async function copyNew(from: string, to: string): Promise<void> {
  try {
    await copyFile(from, to, constants.COPYFILE_EXCL);
  } catch (error) {
    if ((error as { code?: string }).code !== "EEXIST") throw error;
  }
}

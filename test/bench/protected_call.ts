import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Pool } from "undici";
import type { Database } from "../../src/db/database.ts";
import { createGuard, type Guard } from "../../src/sdk/guard.ts";
import { bindOperation } from "../../src/sdk/operation.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { type Agent, openAgents } from "./memory/agents.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { times } from "./timing.ts";
import { startBenchVault } from "./vault/place.ts";

/**
 * Measures whole protected calls, with every round trip between agent, application and service. `challenged`:
 * the application refuses and gives a challenge, the agent presents and calls again. `prove first`: the agent
 * presents without a challenge and calls once. Run `node test/bench/protected_call.ts`.
 */
const ROUNDS = 9;
const CALLS = 600;
const LANES = 16;
const AGENTS = 200;
const ACTION = "read_order";
const SCOPE = "data:read";
const [CHALLENGED, PROVE_FIRST] = ["challenged calls", "prove-first calls"];

type Acting = Agent & { guard: Guard; workspaceId: string };

await withBenchDatabase({}, async ({ db, url, folder, postgres }) => {
  const sealingKey = randomBytes(32);
  const vault = await startBenchVault(postgres, folder, "vault");
  try {
    const opened = await openAgents({ db, vault: vault.client }, AGENTS);
    const api = await startApiProcess(folder, url, sealingKey, {
      VAULT_URL: vault.url,
      VAULT_CA_FILE: join(vault.config.tlsDir, "ca.pem"),
      VAULT_CERT_FILE: join(vault.config.tlsDir, "api.pem"),
      VAULT_KEY_FILE: join(vault.config.tlsDir, "api.key"),
      PRESENT_PER_MINUTE: "10000000",
    });
    const baseUrl = `http://127.0.0.1:${api.port}`;
    const agents = await actingAgents(db, opened, baseUrl);
    const application = createServer((request, response) => void answer(agents, request, response));
    await once(application.listen(0, "127.0.0.1"), "listening");
    try {
      const record = await recordRounds(ROUNDS, async (round) => {
        await measure({ agents, baseUrl, application }, round, CHALLENGED);
        await measure({ agents, baseUrl, application }, round, PROVE_FIRST);
      });
      report({ figures: record.figures(), ratios: ratios() });
    } finally {
      application.closeAllConnections();
      application.close();
      await api.stop();
    }
  } finally {
    await vault.close();
  }
});

/** Gives each agent a guard of its own connection, which is the application's. */
async function actingAgents(db: Database, agents: readonly Agent[], baseUrl: string): Promise<Acting[]> {
  const rows = await db("connections").select("connection_id", "account_id");
  const accounts = new Map(rows.map((row) => [row.connection_id, row.account_id]));
  return agents.map((agent) => {
    const verifier = {
      verifierId: agent.connectionId,
      workspaceId: String(accounts.get(agent.connectionId)),
    };
    const guard = createGuard({ baseUrl, apiKey: agent.apiKey, verifier, challengesPerSecond: 10_000 });
    return { ...agent, guard, workspaceId: verifier.workspaceId };
  });
}

/** The application: answers an allowed call with 200, and a call without a proof with a challenge. */
async function answer(
  agents: readonly Acting[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const agent = agents[Number(request.url?.slice(1))];
  const proof = request.headers["x-service-proof"];
  if (agent === undefined) throw new Error(`there is no agent ${request.url}`);
  if (typeof proof !== "string") {
    response.writeHead(403).end(JSON.stringify(await agent.guard.challenge()));
    return;
  }
  const operation = {
    action: ACTION,
    invocationId: String(request.headers["x-service-invocation-id"]),
    agentId: agent.agentId,
  };
  const { allowed } = await agent.guard.authorize({ requiredScope: SCOPE, proof, operation });
  response.writeHead(allowed ? 200 : 403).end();
}

type Place = { agents: readonly Acting[]; baseUrl: string; application: Server };

async function measure(
  { agents, baseUrl, application }: Place,
  record: FigureRecord,
  name: string,
): Promise<void> {
  const { port } = application.address() as AddressInfo;
  const service = new Pool(baseUrl, { connections: LANES, pipelining: 1 });
  const server = new Pool(`http://127.0.0.1:${port}`, { connections: LANES, pipelining: 1 });

  async function challenge(path: string): Promise<string> {
    const { statusCode, body } = await server.request({ method: "GET", path });
    const found = (await body.json()) as { challenge?: string };
    if (statusCode !== 403 || found.challenge === undefined) throw new Error("there is no challenge");
    return found.challenge;
  }

  async function call(n: number): Promise<void> {
    const at = n % agents.length;
    const agent = agents[at] as Acting;
    const given = name === CHALLENGED ? { challenge: await challenge(`/${at}`) } : {};
    const invocationId = randomUUID();
    const operation = bindOperation(
      { action: ACTION, invocationId, agentId: agent.agentId },
      {
        requiredScope: SCOPE,
        verifier: { verifierId: agent.connectionId, workspaceId: agent.workspaceId },
        payloadDigest: undefined,
      },
    );
    const presented = await service.request({
      method: "POST",
      path: `/v1/service/connections/${agent.connectionId}/agents/${agent.agentId}/present`,
      headers: { "content-type": "application/json", "x-service-api-key": agent.apiKey },
      body: JSON.stringify({ ...given, operation, required_scope: SCOPE }),
    });
    const { proof_ref: proof } = (await presented.body.json()) as { proof_ref: string };
    const headers = { "x-service-proof": proof, "x-service-invocation-id": invocationId };
    const allowed = await server.request({ method: "GET", path: `/${at}`, headers });
    await allowed.body.dump();
    if (allowed.statusCode !== 200) throw new Error(`a protected call got ${allowed.statusCode}`);
  }

  const start = performance.now();
  const durations = await times(CALLS, LANES, call);
  record.add(name, "a second", CALLS / ((performance.now() - start) / 1000));
  durations.sort((a, b) => a - b);
  record.add(`${name}: p50`, "ms", durations[Math.floor(CALLS / 2)] ?? 0);
  record.add(`${name}: p99`, "ms", durations[Math.floor(CALLS * 0.99)] ?? 0);
  await Promise.all([service.close(), server.close()]);
}

function ratios(): Ratio[] {
  return [{ name: "prove first / challenged", over: PROVE_FIRST, under: CHALLENGED, aim: { atLeast: 1.1 } }];
}

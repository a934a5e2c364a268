import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import autocannon from "autocannon";
import { openDatabase, openPool } from "../../src/db/connection.ts";
import { migrate } from "../../src/db/migrate.ts";
import { processPart } from "../../src/dev/part.ts";
import { freePort } from "../../src/dev/ports.ts";
import { startPostgres } from "../../src/dev/postgres.ts";
import { untilAnswers } from "../../src/dev/readiness.ts";
import { maintainPartitions } from "../../src/proofs/partitions.ts";
import { challengeSignBytes } from "../../src/protocol/challenge.ts";
import { verifyHybrid } from "../../src/protocol/hybrid.ts";
import type { ProofBundle } from "../../src/protocol/proof_bundle.ts";
import { createSeal } from "../../src/seal.ts";
import { createProofWorld, type ProofWorld } from "../support/proof_world.ts";

/**
 * What a decision costs from end to end: verifies over HTTP with full bundles, each durable (audit row, charge and
 * spent challenge committed with fsync on), against bare hybrid verifications of the same signatures on the thread
 * pool, in the same run and in turns. Client, API and Postgres share the machine. `node test/bench/verify_http.ts [--json]`.
 */
const ROUNDS = 3;
const PROOFS_A_ROUND = 6_000;
const CONNECTIONS = 16;
const WORLDS = 10;

const root = fileURLToPath(new URL("../..", import.meta.url));
const seconds = (since: number) => (performance.now() - since) / 1000;
const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

const folder = await mkdtemp(join(tmpdir(), "deputize-bench-"));
const postgres = await startPostgres({ dataDir: join(folder, "postgres") });
try {
  const url = postgres.superuserUrl("postgres");
  await migrate(url);
  const sealingKey = randomBytes(32);
  const onError = () => {};
  const db = openDatabase({ url, name: "bench", onError });
  const pool = openPool({ url, name: "bench", onError });
  await maintainPartitions(pool, new Date());
  const seal = createSeal(sealingKey);
  const worlds = await Promise.all(Array.from({ length: WORLDS }, () => createProofWorld(db, seal)));
  const api = await startApiProcess(url, sealingKey);
  try {
    const bare: number[] = [];
    const overHttp: number[] = [];
    const p99: number[] = [];
    const bareCpu: number[] = [];
    const apiCpu: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const bundles = await prove(worlds, PROOFS_A_ROUND);
      const start = await cpuMicroseconds(process.pid);
      bare.push(await measureBare(bundles.map(({ bundle }) => bundle)));
      bareCpu.push(((await cpuMicroseconds(process.pid)) - start) / bundles.length);
      const before = await cpuMicroseconds(api.pid);
      const { rate, latency } = await measureHttp(api.baseUrl, bundles);
      apiCpu.push(((await cpuMicroseconds(api.pid)) - before) / bundles.length);
      overHttp.push(rate);
      p99.push(latency);
    }
    const figures = {
      bare_hybrid_verifies_per_second: Math.round(median(bare)),
      http_verifies_per_second: Math.round(median(overHttp)),
      ratio: Number((median(overHttp) / median(bare)).toFixed(3)),
      http_p99_ms: median(p99),
      connections: CONNECTIONS,
      bare_cpu_us: Math.round(median(bareCpu)),
      api_cpu_us: Math.round(median(apiCpu)),
    };
    if (process.argv.includes("--json")) console.log(JSON.stringify(figures));
    else console.table(figures);
  } finally {
    await api.stop();
    await pool.end();
    await db.destroy();
  }
} finally {
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}

/** Processor time of a process so far, all its threads, user and system (Linux; 10 ms steps). */
async function cpuMicroseconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

type Proven = { world: ProofWorld; bundle: ProofBundle };

async function prove(worlds: ProofWorld[], count: number): Promise<Proven[]> {
  return Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const world = worlds[n % worlds.length] as ProofWorld;
      return { world, bundle: await world.prove() };
    }),
  );
}

/** Challenge signatures alone: what every decision must check, whatever it remembers. */
async function measureBare(bundles: ProofBundle[]): Promise<number> {
  const start = performance.now();
  const results = await Promise.all(
    bundles.map((bundle) =>
      verifyHybrid(bundle.agent_pub_key, challengeSignBytes(bundle), bundle.challenge_sig),
    ),
  );
  if (!results.every(Boolean)) throw new Error("a signature did not verify");
  return bundles.length / seconds(start);
}

async function measureHttp(baseUrl: string, proofs: Proven[]): Promise<{ rate: number; latency: number }> {
  const requests = proofs.map(({ world, bundle }) => ({
    method: "POST" as const,
    path: "/v1/service/verify",
    headers: { "content-type": "application/json", "x-service-api-key": world.apiKey },
    body: JSON.stringify({ proof_bundle: bundle, required_scope: "data:read" }),
  }));
  let next = 0;
  let allowed = 0;
  const start = performance.now();
  const result = await autocannon({
    url: baseUrl,
    connections: CONNECTIONS,
    amount: requests.length,
    requests: [
      {
        method: "POST",
        path: "/v1/service/verify",
        setupRequest: (request) => ({ ...request, ...requests[next++ % requests.length] }),
        onResponse: (status, body) => {
          if (status === 200 && body.includes('"decision":"allow"')) allowed += 1;
        },
      },
    ],
  });
  const rate = requests.length / seconds(start);
  if (allowed !== requests.length) throw new Error(`${allowed} of ${requests.length} were allowed`);
  return { rate, latency: result.latency.p99 };
}

async function startApiProcess(databaseUrl: string, sealingKey: Buffer) {
  const [port, health] = [await freePort(), await freePort()];
  const none = join(folder, "none.pem");
  await writeFile(none, "");
  const baseUrl = `http://127.0.0.1:${port}`;
  const part = processPart({
    name: "api",
    title: "API",
    command: process.execPath,
    args: [join(root, "src", "main.ts"), "api"],
    env: {
      DATABASE_URL: databaseUrl,
      SEALING_KEY: sealingKey.toString("base64"),
      DEVELOPMENT: "true",
      PORT: String(port),
      BASE_URL: baseUrl,
      HEALTH_PORT: String(health),
      VAULT_URL: "https://127.0.0.1:1",
      VAULT_CA_FILE: none,
      VAULT_CERT_FILE: none,
      VAULT_KEY_FILE: none,
    },
    ready: (signal) => untilAnswers(`http://127.0.0.1:${health}/readyz`, signal),
  });
  const running = await part.start({
    logFile: join(folder, "api.log"),
    signal: new AbortController().signal,
    spawned: () => {},
  });
  return { baseUrl, pid: running.pid, stop: () => running.stop() };
}

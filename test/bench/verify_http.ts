import { fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { acceptPrincipal } from "../support/accepted_principals.ts";
import { createProofWorld, type ProofWorld } from "../support/proof_world.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { median } from "./median.ts";
import { processorTime, processorTimeWithChildren } from "./processor_time.ts";
import type { Load, Seen } from "./verify_client.ts";

/**
 * What a decision costs from end to end: verifies over HTTP with full bundles, each durable (audit row,
 * charge and spent challenge committed with fsync on), against bare hybrid verifications of the same
 * signatures on the thread pool, in the same run and in turns, after one round to warm up. Client, API and
 * Postgres share the machine, so the processor's time of each is reported too: it is what hardly depends on
 * what else the machine does. `node test/bench/verify_http.ts [--json]`.
 */
const ROUNDS = 3;
const PROOFS_A_ROUND = 6_000;
const WORLDS = 10;
/**
 * How many calls are under way at the same time, and whose authority is shown: the verifier's own, or an
 * accepted principal's.
 */
const CASES = [
  { connections: 16, authority: "own" },
  { connections: 64, authority: "own" },
  { connections: 64, authority: "accepted" },
] as const;
type Case = (typeof CASES)[number];

let folder: string;
let postgresPid: number;
await withBenchDatabase({}, async (database) => {
  ({ folder, postgresPid } = database);
  const { db, url } = database;
  const sealingKey = randomBytes(32);
  const secretBox = createSecretBox(sealingKey);
  const worlds = await Promise.all(Array.from({ length: WORLDS }, () => createProofWorld(db, secretBox)));
  for (const [n, world] of worlds.entries()) {
    await acceptPrincipal(db, world, other(worlds, n), { created_at: new Date() });
  }
  const api = await startApiProcess(folder, url, sealingKey);
  try {
    await measureRound(worlds, api);
    const rounds: Round[] = [];
    for (let round = 0; round < ROUNDS; round += 1) rounds.push(await measureRound(worlds, api));
    if (process.argv.includes("--json")) {
      console.log(JSON.stringify(figuresOf(rounds)));
    } else {
      console.table(figuresOf(rounds));
    }
  } finally {
    await api.stop();
  }
});

type Bare = { perSecond: number; cpu: number };
type OverHttp = {
  perSecond: number;
  p50: number;
  p99: number;
  api: number;
  postgres: number;
  client: number;
};
type Round = { bare: Bare; http: OverHttp[] };

/** The world whose authority the nth one accepts beside its own. */
function other(worlds: readonly ProofWorld[], n: number): ProofWorld {
  return worlds[(n + 1) % worlds.length] as ProofWorld;
}

/** One turn of each: the same signatures bare, then over HTTP in each case. */
async function measureRound(worlds: ProofWorld[], api: RunningApi): Promise<Round> {
  const http: OverHttp[] = [];
  let bare: Bare | undefined;
  for (const { connections, authority } of CASES) {
    const proofs = await prove(worlds, PROOFS_A_ROUND, authority);
    bare ??= await measureBare(proofs.map(({ bundle }) => bundle));
    http.push(await measureHttp(api, proofs, connections));
  }
  return { bare: bare as Bare, http };
}

/** Medians over the rounds; processor time in microseconds a decision, and a bare verify. */
function figuresOf(rounds: readonly Round[]) {
  const barePerSecond = median(rounds.map(({ bare }) => bare.perSecond));
  const bareCpu = median(rounds.map(({ bare }) => bare.cpu));
  return CASES.map(({ connections, authority }, index) => {
    const middle = (name: keyof OverHttp) => median(rounds.map(({ http }) => http[index]?.[name] ?? 0));
    return {
      connections,
      authority,
      bare_per_second: Math.round(barePerSecond),
      decisions_per_second: Math.round(middle("perSecond")),
      ratio: Number((middle("perSecond") / barePerSecond).toFixed(3)),
      p50_ms: Number(middle("p50").toFixed(1)),
      p99_ms: Number(middle("p99").toFixed(1)),
      bare_cpu_us: Math.round(bareCpu),
      api_cpu_us: Math.round(middle("api")),
      postgres_cpu_us: Math.round(middle("postgres")),
      client_cpu_us: Math.round(middle("client")),
    };
  });
}

type Proven = { world: ProofWorld; bundle: ProofBundle };

async function prove(worlds: ProofWorld[], count: number, authority: Case["authority"]): Promise<Proven[]> {
  await Promise.all(worlds.map((world) => world.prove()));
  return Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const world = worlds[n % worlds.length] as ProofWorld;
      const prover = authority === "own" ? world : other(worlds, n);
      return { world, bundle: await prover.prove({ shownTo: world.connectionId }) };
    }),
  );
}

/** Challenge signatures alone: what every decision must check, whatever it remembers. */
async function measureBare(bundles: ProofBundle[]): Promise<Bare> {
  const before = await processorTime(process.pid);
  const start = performance.now();
  const results = await Promise.all(
    bundles.map((bundle) =>
      verifyHybrid(bundle.agent_pub_key, challengeSignBytes(bundle), bundle.challenge_sig),
    ),
  );
  const perSecond = bundles.length / ((performance.now() - start) / 1000);
  if (!results.every(Boolean)) throw new Error("a signature did not verify");
  return { perSecond, cpu: ((await processorTime(process.pid)) - before) / bundles.length };
}

async function measureHttp(api: RunningApi, proofs: Proven[], connections: number): Promise<OverHttp> {
  const requests = proofs.map(requestOf);
  const file = join(folder, "requests");
  await writeFile(file, Buffer.concat(requests));
  const load: Load = { port: api.port, connections, file, lengths: requests.map(({ length }) => length) };
  const apiBefore = await processorTime(api.pid);
  const postgresBefore = await processorTimeWithChildren(postgresPid);
  const seen = await runClient(load);
  const each = (microseconds: number) => microseconds / proofs.length;
  if (seen.allowed !== proofs.length) throw new Error(`${seen.allowed} of ${proofs.length} were allowed`);
  return {
    perSecond: proofs.length / (seen.ms / 1000),
    p50: seen.p50,
    p99: seen.p99,
    api: each((await processorTime(api.pid)) - apiBefore),
    postgres: each((await processorTimeWithChildren(postgresPid)) - postgresBefore),
    client: each(seen.cpuMicroseconds),
  };
}

async function runClient(load: Load): Promise<Seen> {
  const client = fork(fileURLToPath(new URL("verify_client.ts", import.meta.url)));
  client.send(load);
  const [seen] = await once(client, "message");
  client.disconnect();
  return seen as Seen;
}

/** A verify call as it goes over the wire. */
function requestOf({ world, bundle }: Proven): Buffer {
  const body = JSON.stringify({ proof_bundle: bundle, required_scope: "data:read" });
  const head = [
    "POST /v1/service/verify HTTP/1.1",
    "host: 127.0.0.1",
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-service-api-key: ${world.apiKey}`,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
}

type RunningApi = Awaited<ReturnType<typeof startApiProcess>>;

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { startPostgres } from "../../src/dev/postgres.ts";
import { challengeSignBytes } from "../../src/protocol/challenge.ts";
import { generateSeeds, importSeeds, signHybrid } from "../../src/protocol/hybrid.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";

/**
 * What a hybrid signature costs over mutual TLS with its audit record on disk, against importing two seeds and signing in this
 * process: measured in turns in one run, so that a busy machine slows both. The vault is a process of its own on a Postgres that waits
 * for the disk; this process is the client. Where other things use the machine, the processor's time is what to compare.
 * `node test/bench/vault.ts [--json]`.
 */
const WARM_UP = 300;
const PAIRS = 1_500;
const LOAD = 4_000;
const CONCURRENCY = [1, 4, 16, 32];

const main = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));
const dir = await mkdtemp(join(tmpdir(), "keyvault-bench-"));
const postgres = await startPostgres({ dataDir: join(dir, "postgres") });
const environment = {
  KEYVAULT_DATA_DIR: join(dir, "vault"),
  KEYVAULT_DATABASE_URL: await createDatabase(),
  KEYVAULT_PORT: "0",
  KEYVAULT_RATE_PER_KEY: "0",
  KEYVAULT_RATE_PER_TENANT: "0",
  KEYVAULT_LOG_LEVEL: "info",
  KEYVAULT_EXIT_ON_STDIN_CLOSE: "1",
};
await once(spawn(process.execPath, [main, "init"], { env: environment, stdio: "ignore" }), "exit");
const vault = spawn(process.execPath, [main, "serve"], {
  env: environment,
  stdio: ["pipe", "pipe", "inherit"],
});
const client = createVaultClient({
  url: `https://localhost:${await listening()}`,
  ...identity(),
  connections: 32,
});

try {
  const figures = await measure(client);
  if (process.argv.includes("--json")) console.log(JSON.stringify(figures));
  else report(figures);
} finally {
  await client.close();
  vault.stdin.end();
  await once(vault, "exit");
  await postgres.stop();
  await rm(dir, { recursive: true, force: true });
}

type Figures = {
  in_process_ms: Percentiles;
  over_mtls_ms: Percentiles;
  p50_ratio: number;
  p99_ratio: number;
  bare_per_second: number;
  /** Processor's microseconds for one signature at 16 at once, and the signatures a second that two cores have time for. */
  cpu_us: { bare: number; client: number; vault: number; token: number; postgres: number };
  two_cores_per_second: number;
  load: { concurrency: number; per_second: number; share_of_bare: number; p50_ms: number; p99_ms: number }[];
};
type Percentiles = { p50: number; p99: number };

async function measure(client: VaultClient): Promise<Figures> {
  const { key_id } = await client.createKey(
    { tenant: "bench", purpose: "agent", label: "bench", ceiling: [] },
    "bench-key",
  );
  const seeds = generateSeeds();
  const challenge = Buffer.alloc(32, 1).toString("base64");
  const binding = () => ({ challenge, challenge_at: Math.floor(Date.now() / 1000) });
  const remote = () => client.signChallenge({ tenant: "bench", keyId: key_id }, binding());
  const bare = () => signHybrid(importSeeds(seeds), challengeSignBytes(binding()));

  await times(WARM_UP, 4, remote);
  await times(WARM_UP, 4, bare);
  const near: number[] = [];
  const far: number[] = [];
  for (let pair = 0; pair < PAIRS; pair += 1) {
    near.push(...(await times(1, 1, bare)));
    far.push(...(await times(1, 1, remote)));
  }
  const ownCpu = process.cpuUsage();
  const bareRate = await rate(LOAD, 4, bare);
  const bareCpu = cpuSince(ownCpu);
  const cpu_us = { bare: bareCpu / LOAD, ...(await cpuOf(remote)) };
  const load: Figures["load"] = [];
  for (const concurrency of CONCURRENCY) {
    const { perSecond, durations } = await rate(LOAD, concurrency, remote);
    const { p50, p99 } = percentiles(durations);
    load.push({
      concurrency,
      per_second: Math.round(perSecond),
      share_of_bare: perSecond / bareRate.perSecond,
      p50_ms: p50,
      p99_ms: p99,
    });
  }
  const [inProcess, overMtls] = [percentiles(near), percentiles(far)];
  return {
    in_process_ms: inProcess,
    over_mtls_ms: overMtls,
    p50_ratio: overMtls.p50 / inProcess.p50,
    p99_ratio: overMtls.p99 / inProcess.p99,
    bare_per_second: Math.round(bareRate.perSecond),
    cpu_us,
    two_cores_per_second: Math.round(2e6 / (cpu_us.client + cpu_us.vault + cpu_us.token + cpu_us.postgres)),
    load,
  };
}

async function cpuOf(remote: () => Promise<unknown>): Promise<Omit<Figures["cpu_us"], "bare">> {
  const pids = { vault: vault.pid ?? 0, token: childrenOf(vault.pid ?? 0)[0] ?? 0 };
  const read = () => ({
    vault: cpuOfProcess(pids.vault),
    token: cpuOfProcess(pids.token),
    postgres: cpuOfGroup(postgres.pid),
  });
  const before = read();
  const own = process.cpuUsage();
  await times(LOAD, 16, remote);
  const client = cpuSince(own) / LOAD;
  const after = read();
  const used = (part: keyof typeof after): number => (after[part] - before[part]) / LOAD;
  return { client, vault: used("vault"), token: used("token"), postgres: used("postgres") };
}

function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** Processor's time of a process so far, in microseconds; Linux counts it in ticks of 10 ms. */
function cpuOfProcess(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

function cpuOfGroup(pid: number): number {
  return [pid, ...childrenOf(pid)].reduce((sum, member) => sum + cpuOfProcess(member), 0);
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .trim()
    .split(" ")
    .filter(Boolean)
    .map(Number);
}

async function rate(count: number, concurrency: number, work: () => Promise<unknown>) {
  const start = performance.now();
  const durations = await times(count, concurrency, work);
  return { perSecond: count / ((performance.now() - start) / 1000), durations };
}

/** Runs `work` `count` times, `concurrency` at once, and gives each run's milliseconds. */
async function times(count: number, concurrency: number, work: () => Promise<unknown>): Promise<number[]> {
  const durations: number[] = [];
  let started = 0;
  const lane = async (): Promise<void> => {
    while (started < count) {
      started += 1;
      const start = performance.now();
      await work();
      durations.push(performance.now() - start);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  return durations;
}

function percentiles(durations: number[]): Percentiles {
  const sorted = durations.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}

function report(figures: Figures): void {
  const { in_process_ms, over_mtls_ms, p50_ratio, p99_ratio, bare_per_second, cpu_us, load } = figures;
  const round = (value: number): number => Number(value.toFixed(2));
  console.table({
    "in process": { p50: round(in_process_ms.p50), p99: round(in_process_ms.p99) },
    "over mTLS, audited": { p50: round(over_mtls_ms.p50), p99: round(over_mtls_ms.p99) },
    ratio: { p50: round(p50_ratio), p99: round(p99_ratio) },
  });
  console.log(`bare signatures per second, 4 at once: ${bare_per_second}`);
  console.log("processor's microseconds for one signature:");
  console.table(Object.fromEntries(Object.entries(cpu_us).map(([part, value]) => [part, Math.round(value)])));
  console.log(`two cores have time for ${figures.two_cores_per_second} a second`);
  console.table(
    load.map((row) => ({
      ...row,
      share_of_bare: round(row.share_of_bare),
      p50_ms: round(row.p50_ms),
      p99_ms: round(row.p99_ms),
    })),
  );
}

async function createDatabase(): Promise<string> {
  const admin = new pg.Client({ connectionString: postgres.superuserUrl("postgres") });
  await admin.connect();
  await admin.query("CREATE DATABASE keyvault");
  await admin.end();
  return postgres.superuserUrl("keyvault");
}

async function listening(): Promise<number> {
  for await (const line of createInterface({ input: vault.stdout })) {
    const event = JSON.parse(line) as { event?: string; port?: number };
    if (event.event !== "listening") continue;
    vault.stdout.resume();
    return event.port ?? 0;
  }
  throw new Error("The vault ended before it listened");
}

function identity(): { ca: Buffer; cert: Buffer; key: Buffer } {
  const read = (file: string): Buffer => readFileSync(join(dir, "vault", "tls", file));
  return { ca: read("ca.pem"), cert: read("api.pem"), key: read("api.key") };
}

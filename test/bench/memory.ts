import { fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startApiProcess } from "./api_process.ts";
import { type BenchDatabase, withBenchDatabase } from "./database.ts";
import { type Agent, openAgents } from "./memory/agents.ts";
import { childrenOf, residentOf, type Watched } from "./memory/resident.ts";
import { type Orders, WINDOW_SECONDS, type Window } from "./memory/windows.ts";
import { median, type Ratio } from "./results/figures.ts";
import { createRecord, type FigureRecord, inParts } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { percentiles } from "./timing.ts";
import { type BenchVault, startBenchVault } from "./vault/place.ts";

/**
 * Measures the memory of each process and the wait times while many agents present proofs and the API
 * decides. Run `node test/bench/memory.ts [--minutes=2] [--agents=500]`. With more than 10,000 agents, the
 * vault's key cache no longer holds all keys.
 */
const option = (name: string, otherwise: number): number =>
  Number(process.argv.find((argument) => argument.startsWith(`--${name}=`))?.split("=")[1] ?? otherwise);
const MINUTES = option("minutes", 2);
const AGENTS = option("agents", 500);
const LANES = 32;
const SAMPLE_MS = 2_000;
const QUARTERS = 4;
const MOST_MB = 300;
const PROCESSES = ["API", "vault", "token"] as const;
const POSTGRES = "Postgres, all processes";
const BOUND = "memory limit of a process";

await withBenchDatabase({}, async (database) => {
  const vault = await startBenchVault(database.postgres, database.folder, "vault");
  try {
    const agents = await openAgents({ db: database.db, vault: vault.client }, AGENTS);
    const record = createRecord();
    await measure({ database, vault, agents }, record);
    report({ figures: record.figures(), ratios: ratios() });
  } finally {
    await vault.close();
  }
});

type Place = { database: BenchDatabase; vault: BenchVault; agents: Agent[] };

async function measure({ database, vault, agents }: Place, record: FigureRecord): Promise<void> {
  const { folder, url, postgresPid } = database;
  const api = await startApiProcess(folder, url, randomBytes(32), {
    VAULT_URL: vault.url,
    VAULT_CA_FILE: join(vault.config.tlsDir, "ca.pem"),
    VAULT_CERT_FILE: join(vault.config.tlsDir, "api.pem"),
    VAULT_KEY_FILE: join(vault.config.tlsDir, "api.key"),
    PRESENT_PER_MINUTE: "10000000",
  });
  try {
    const parts: Watched[] = [
      { name: "API", pids: async () => [api.pid] },
      { name: "vault", pids: async () => [vault.pid] },
      { name: "token", pids: () => childrenOf(vault.pid) },
      { name: POSTGRES, pids: async () => [postgresPid, ...(await childrenOf(postgresPid))] },
    ];
    const samples = [await residentOf(parts)];
    const windows = await load({ port: api.port, lanes: LANES, seconds: MINUTES * 60, agents }, async () => {
      samples.push(await residentOf(parts));
    });
    addSizes(record, samples);
    addWindows(record, windows);
  } finally {
    await api.stop();
  }
}

/** Rejects if a call was not allowed. */
async function load(orders: Orders, sample: () => Promise<void>): Promise<Window[]> {
  const windows: Window[] = [];
  const client = fork(fileURLToPath(new URL("memory/client.ts", import.meta.url)));
  client.on("message", (window: Window) => windows.push(window));
  client.send(orders);
  const ended = once(client, "exit");
  while (client.exitCode === null && client.signalCode === null) {
    await Promise.race([sleep(SAMPLE_MS), ended]);
    await sample();
  }
  if (client.exitCode !== 0) throw new Error(`the client ended with ${client.exitCode}`);
  return windows;
}

function addSizes(record: FigureRecord, samples: readonly Map<string, number>[]): void {
  for (const name of [...PROCESSES, POSTGRES]) {
    const sizes = samples.map((sample) => sample.get(name) ?? Number.NaN);
    const [start = Number.NaN, ...later] = sizes;
    record.add(`${name}: start`, "MB", start);
    for (const [n, quarter] of inParts(later, QUARTERS).entries()) {
      for (const size of quarter) record.add(quarterOf(name, n + 1), "MB", size);
    }
    record.add(`${name}: end`, "MB", sizes.at(-1) ?? Number.NaN);
    record.add(`${name}: highest`, "MB", Math.max(...sizes));
  }
  record.add(BOUND, "MB", MOST_MB);
}

function addWindows(record: FigureRecord, windows: readonly Window[]): void {
  for (const kind of ["presents", "decisions"] as const) {
    const seen = windows.map((window) => window[kind]);
    for (const waits of seen) {
      record.add(`${kind}: in a window`, "a second", waits.length / WINDOW_SECONDS);
      record.add(`${kind}: p50 of a window`, "ms", percentiles(waits).p50);
      record.add(`${kind}: p99 of a window`, "ms", percentiles(waits).p99);
    }
    const p99s = seen.map((waits) => percentiles(waits).p99);
    record.add(`${kind}: median p99`, "ms", median(p99s));
    record.add(`${kind}: highest p99`, "ms", Math.max(...p99s));
  }
}

function quarterOf(name: string, quarter: number): string {
  return `${name}: quarter ${quarter}`;
}

function ratios(): Ratio[] {
  return [
    ...PROCESSES.map((name): Ratio => {
      return { ...between(`${name}: highest`, BOUND), aim: { atMost: 1 } };
    }),
    ...PROCESSES.map((name): Ratio => {
      return { ...between(quarterOf(name, QUARTERS), quarterOf(name, 2)), aim: { atMost: 1.1 } };
    }),
    ...["presents", "decisions"].map((kind): Ratio => {
      return { ...between(`${kind}: highest p99`, `${kind}: median p99`), aim: { atMost: 3 } };
    }),
  ];
}

function between(over: string, under: string): Ratio {
  return { name: `${over} / ${under}`, over, under };
}

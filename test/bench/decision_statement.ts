import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase, openPool } from "../../src/db/connection.ts";
import { migrate } from "../../src/db/migrate.ts";
import { startPostgres } from "../../src/dev/postgres.ts";
import { type DecisionItem, type DecisionOutcome, decideBatch } from "../../src/proofs/decision.ts";
import { maintainPartitions } from "../../src/proofs/partitions.ts";
import { insertRecords, itemFor, type Records } from "../proofs/records.ts";
import { acceptPrincipal } from "../support/accepted_principals.ts";
import { processorTime } from "./processor_time.ts";

/**
 * What the deciding statement alone costs Postgres, for batches of several sizes: decisions on the verifier's own
 * authority, the same on an accepted principal's (each writes the history of a second account), and calls without
 * credit. All on one connection and in turns, so that the figures of a size can be held against each other.
 * `node test/bench/decision_statement.ts [--json]`.
 */
const ROUNDS = 9;
const BATCH_SIZES = [1, 10, 24];
const ITEMS_A_ROUND = 2_000;
const ACCOUNTS = 10;
const CASES: Record<string, { verifiers: "rich" | "poor"; prover: 0 | 1; outcome: DecisionOutcome["kind"] }> =
  {
    own: { verifiers: "rich", prover: 0, outcome: "decided" },
    accepted: { verifiers: "rich", prover: 1, outcome: "decided" },
    "without credit": { verifiers: "poor", prover: 0, outcome: "credits_exhausted" },
  };

const folder = await mkdtemp(join(tmpdir(), "deputize-bench-"));
const postgres = await startPostgres({ dataDir: join(folder, "postgres") });
try {
  const url = postgres.superuserUrl("postgres");
  await migrate(url);
  const onError = () => {};
  const db = openDatabase({ url, name: "bench", onError });
  const pool = openPool({ url, name: "bench", max: 1, onError });
  try {
    await maintainPartitions(pool, new Date());
    const insert = (balance: number) =>
      Promise.all(Array.from({ length: ACCOUNTS }, () => insertRecords(db, balance)));
    const accounts = { rich: await insert(1e12), poor: await insert(0) };
    for (const [n, verifier] of accounts.rich.entries())
      await acceptPrincipal(db, verifier, at(accounts.rich, n + 1), { created_at: new Date() });
    const { rows } = await pool.query<{ pid: number }>("select pg_backend_pid() as pid");
    const figures = [];
    for (const size of BATCH_SIZES) figures.push(...(await measureSize(size, accounts, rows[0]?.pid ?? 0)));
    if (process.argv.includes("--json")) console.log(JSON.stringify(figures));
    else console.table(figures);
  } finally {
    await pool.end();
    await db.destroy();
  }

  /** Medians over the rounds, each case once in a round, after one round to warm up. */
  async function measureSize(size: number, accounts: Record<"rich" | "poor", Records[]>, backend: number) {
    const seen = Object.keys(CASES).map((name) => ({ name, ms: [] as number[], cpu: [] as number[] }));
    for (let round = 0; round <= ROUNDS; round += 1)
      for (const { name, ms, cpu } of round % 2 === 0 ? seen : seen.toReversed()) {
        const took = await measureRound(name, size, accounts, backend);
        if (round === 0) continue;
        ms.push(took.ms);
        cpu.push(took.cpu);
      }
    return seen.map(({ name, ms, cpu }) => ({
      items: size,
      authority: name,
      ms_a_batch: Number(median(ms).toFixed(2)),
      postgres_cpu_us_an_item: Math.round(median(cpu)),
      of_own: Number((median(cpu) / median(seen[0]?.cpu ?? [])).toFixed(2)),
    }));
  }

  async function measureRound(
    name: string,
    size: number,
    accounts: Record<"rich" | "poor", Records[]>,
    backend: number,
  ) {
    const { verifiers, prover, outcome } = CASES[name] as (typeof CASES)[string];
    const batches = Array.from({ length: Math.ceil(ITEMS_A_ROUND / size) }, () =>
      Array.from({ length: size }, (_, n) =>
        itemOf(at(accounts[verifiers], n), at(accounts[verifiers], n + prover)),
      ),
    );
    const before = await processorTime(backend);
    const start = performance.now();
    for (const batch of batches) {
      const outcomes = await decideBatch(pool, batch);
      if (outcomes.some(({ kind }) => kind !== outcome)) throw new Error(`not every outcome is ${outcome}`);
    }
    const ms = (performance.now() - start) / batches.length;
    return { ms, cpu: ((await processorTime(backend)) - before) / (batches.length * size) };
  }
} finally {
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}

function itemOf(verifier: Records, prover: Records): DecisionItem {
  const now = new Date();
  return itemFor(verifier, {
    ...{ agentId: prover.agentId, humanId: prover.humanId, certId: prover.certId },
    rootAccountId: prover.accountId,
    certificates: [{ accountId: prover.accountId, certId: prover.certId }],
    decidedAt: now,
    challengeExpiresAt: new Date(now.getTime() + 300_000),
    receiptHead: `{"agent_id":"${prover.agentId}","bundle_hash":"${"0".repeat(64)}","cert_id":"${prover.certId}",`,
    receiptTail: `,"human_id":"${prover.humanId}","required_scope":"data:read","version":1}`,
  });
}

function at(accounts: readonly Records[], n: number): Records {
  return accounts[n % accounts.length] as Records;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

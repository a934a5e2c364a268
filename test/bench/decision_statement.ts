import type { Pool } from "pg";
import { type DecisionOutcome, decideBatch } from "../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../src/proofs/decide/decision_item.ts";
import { insertRecords, type Records } from "../proofs/records.ts";
import { acceptPrincipal } from "../support/accepted_principals.ts";
import { connectCustomer } from "../support/customer_rows.ts";
import { withBenchDatabase } from "./database.ts";
import { shown } from "./decision_items.ts";
import { processorTime } from "./processor_time.ts";
import type { Ratio } from "./results/figures.ts";
import { createRecord, type FigureRecord } from "./results/record.ts";
import { report } from "./results/tables.ts";

/**
 * Measures what the SQL statement for decisions costs in Postgres, for several batch sizes. The cases are the
 * verifier's own authority, an accepted principal's and a customer's (which also write a second account's
 * history), and calls without credit. Run `node test/bench/decision_statement.ts`.
 *
 * All cases run on one connection and alternate, so that the figures of one size are comparable.
 */
const ROUNDS = 9;
const BATCH_SIZES = [1, 10, 24];
const ITEMS_A_ROUND = 2_000;
const ACCOUNTS = 10;
type Case = {
  name: string;
  verifiers: "rich" | "poor";
  prover: "own" | "accepted" | "customer";
  outcome: DecisionOutcome["kind"];
};
const CASES: readonly Case[] = [
  { name: "own authority", verifiers: "rich", prover: "own", outcome: "decided" },
  { name: "an accepted principal's", verifiers: "rich", prover: "accepted", outcome: "decided" },
  { name: "a customer's", verifiers: "rich", prover: "customer", outcome: "decided" },
  { name: "without credit", verifiers: "poor", prover: "own", outcome: "credits_exhausted" },
];
/** `customers`: accounts that are connected with the rich ones, each with the id of its connection there. */
type Accounts = Record<Case["verifiers"] | "customers", Records[]>;

await withBenchDatabase({ connections: 1 }, async ({ db, pool }) => {
  const insert = (balance: number) =>
    Promise.all(Array.from({ length: ACCOUNTS }, () => insertRecords(db, balance)));
  const accounts = { rich: await insert(1e12), poor: await insert(0), customers: await insert(0) };
  for (const [n, verifier] of accounts.rich.entries()) {
    await acceptPrincipal(db, verifier, at(accounts.rich, n + 1), { created_at: new Date() });
  }
  for (const [n, publisher] of accounts.rich.entries()) {
    const customer = at(accounts.customers, n);
    customer.connectionId = await connectCustomer(db, customer, publisher);
  }
  const { rows } = await pool.query<{ pid: number }>("select pg_backend_pid() as pid");
  const record = createRecord();
  for (const size of BATCH_SIZES) {
    await measureSize({ pool, backend: rows[0]?.pid ?? 0, accounts, size, record });
  }
  report({ figures: record.figures(), ratios: BATCH_SIZES.flatMap(ratiosOf) });
});

type Measuring = { pool: Pool; backend: number; accounts: Accounts; size: number; record: FigureRecord };

async function measureSize({ pool, backend, accounts, size, record }: Measuring): Promise<void> {
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const each of round % 2 === 0 ? CASES : CASES.toReversed()) {
      const batches = Array.from({ length: Math.ceil(ITEMS_A_ROUND / size) }, () =>
        batchOf(accounts, each, size),
      );
      const { ms, cpu } = await measureRound(pool, backend, batches, each.outcome);
      if (round === 0) continue;
      record.add(`a batch of ${size}, ${each.name}`, "ms", ms);
      record.add(itemFigure(size, each), "µs of Postgres an item", cpu);
    }
  }
}

function itemFigure(size: number, { name }: Case): string {
  return `an item of ${size}, ${name}`;
}

function ratiosOf(size: number): Ratio[] {
  const [own, ...others] = CASES;
  if (own === undefined) return [];
  return others.map((each) => ({
    name: `${each.name} over own authority, batches of ${size}`,
    over: itemFigure(size, each),
    under: itemFigure(size, own),
  }));
}

/** Returns the milliseconds per batch, and the Postgres backend's processor time per item in microseconds. */
async function measureRound(
  pool: Pool,
  backend: number,
  batches: DecisionItem[][],
  outcome: DecisionOutcome["kind"],
) {
  const before = await processorTime(backend);
  const start = performance.now();
  for (const batch of batches) {
    const outcomes = await decideBatch(pool, batch);
    if (outcomes.some(({ kind }) => kind !== outcome)) throw new Error(`not every outcome is ${outcome}`);
  }
  const ms = (performance.now() - start) / batches.length;
  const items = batches.reduce((sum, { length }) => sum + length, 0);
  return { ms, cpu: ((await processorTime(backend)) - before) / items };
}

function batchOf(accounts: Accounts, { verifiers, prover }: Case, size: number): DecisionItem[] {
  return Array.from({ length: size }, (_, n) => {
    const verifier = at(accounts[verifiers], n);
    if (prover === "customer") {
      const customer = at(accounts.customers, n);
      const { accountId: customerAccountId, connectionId } = customer;
      return { ...shown(customer, { ...verifier, connectionId }), customerAccountId };
    }
    return shown(prover === "own" ? verifier : at(accounts[verifiers], n + 1), verifier);
  });
}

function at(accounts: readonly Records[], n: number): Records {
  return accounts[n % accounts.length] as Records;
}

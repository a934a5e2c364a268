import { randomBytes, randomUUID } from "node:crypto";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { differencesOf, nothingOf } from "../../src/accounts/ledger/compare_balances.ts";
import { type Reconciliation, reconcileLedger } from "../../src/accounts/ledger/reconcile.ts";
import { addSeconds } from "../../src/clock.ts";
import type { Database, Transaction } from "../../src/db/database.ts";
import type { LedgerPostingRow } from "../../src/db/tables.ts";
import { decisionWorld } from "../proofs/decision_world.ts";

const world = decisionWorld();
const PAGES = [1, 2, 3, 100_000];
const old = new Date("2026-02-01T00:00:00.000Z");

async function clear(): Promise<void> {
  for (const table of ["balances", "ledger_postings", "audit_events"]) await world.db(table).delete();
}
beforeEach(clear);

type Rows = {
  accountId: string;
  balance: number | undefined;
  charges: Date[];
  decisions: Date[];
  credits: { at: Date; amount: number }[];
};

function posting(
  account_id: string,
  posted_at: Date,
  kind: LedgerPostingRow["kind"],
  amount = 1,
): LedgerPostingRow {
  const [debit_book, credit_book] = kind === "verification" ? ["credit", "revenue"] : ["grants", "credit"];
  const posting_id = randomBytes(32);
  return { account_id, posted_at, posting_id, kind, debit_book, credit_book, amount_micro_usd: amount };
}

const decision = (account_id: string, occurred_at: Date) => ({
  account_id,
  occurred_at,
  event_id: randomUUID(),
  event_type: "proof.verified" as const,
  connection_id: account_id,
  agent_id: "a",
  decision: "allow" as const,
});

async function insert({ accountId, balance, charges, decisions, credits }: Rows): Promise<void> {
  const { db } = world;
  if (balance !== undefined) {
    const account = { account_id: accountId, email: `${accountId}@example.test`, created_at: old };
    await db("accounts").insert({ ...account, onboarding_step: "profile" });
    await db("balances").insert({ account_id: accountId, balance_micro_usd: balance });
  }
  const postings = [
    ...charges.map((at) => posting(accountId, at, "verification")),
    ...credits.map(({ at, amount }) => posting(accountId, at, "alpha_credit", amount)),
  ];
  if (postings.length > 0) await db("ledger_postings").insert(postings);
  if (decisions.length > 0) await db("audit_events").insert(decisions.map((at) => decision(accountId, at)));
}

/** Computes the expected differences without a database. */
function expectedOf({ accountId, balance = 0, charges, decisions, credits }: Rows) {
  const lone = (mine: Date[], theirs: Date[]) => {
    const left = theirs.map((date) => date.getTime());
    return mine.filter((date) => {
      const at = left.indexOf(date.getTime());
      if (at >= 0) left.splice(at, 1);
      return at < 0;
    }).length;
  };
  return differencesOf({
    ...nothingOf(accountId),
    balance,
    credit: credits.reduce((sum, { amount }) => sum + amount, 0) - charges.length,
    lone_charges: lone(charges, decisions),
    lone_decisions: lone(decisions, charges),
  });
}

const moments = fc.array(
  fc.oneof(
    fc.integer({ min: 0, max: 5 }).map((seconds) => addSeconds(old, seconds)),
    fc.integer({ min: -9, max: 0 }).map((minutes) => addSeconds(new Date(), minutes * 60)),
  ),
  { maxLength: 6 },
);
const ledgers = fc.array(
  fc.record({
    balance: fc.option(fc.integer({ min: 0, max: 6 }), { nil: undefined }),
    charges: moments,
    decisions: moments,
    credits: fc.array(fc.record({ at: fc.constant(old), amount: fc.integer({ min: 1, max: 6 }) }), {
      maxLength: 2,
    }),
  }),
  { maxLength: 5 },
);

/** Calls `after` after each statement of a reconciliation, and returns the number of statements. */
async function look(
  pageRows: number,
  after: (statement: number) => Promise<unknown>,
): Promise<{ seen: Reconciliation; statements: number }> {
  let statements = 0;
  const countStatement = async <T>(answer: Promise<T>): Promise<T> => {
    await answer;
    statements += 1;
    await after(statements);
    return answer;
  };
  const database = {
    raw: (sql: string, values: Record<string, string>) =>
      countStatement(Promise.resolve(world.db.raw(sql, values))),
    transaction: (work: (tx: Transaction) => Promise<unknown>, options: object) =>
      countStatement(world.db.transaction(work, options)),
  };
  return {
    seen: await reconcileLedger(database as unknown as Database, { pageRows }),
    statements,
  };
}

const sound = (moments: Date[]): Rows => ({
  accountId: randomUUID(),
  balance: 10,
  charges: moments,
  decisions: moments,
  credits: [{ at: old, amount: 10 + moments.length }],
});
const seconds = (count: number) => Array.from({ length: count }, (_, n) => addSeconds(old, n));

describe("ledger reconciliation in pages", () => {
  test("finds exactly the existing differences, as one large read does", async () => {
    await fc.assert(
      fc
        .asyncProperty(ledgers, async (drawn) => {
          const rows = drawn.map((each) => ({ accountId: randomUUID(), ...each }));
          for (const each of rows) await insert(each);
          const present = rows.filter(
            ({ balance, charges, decisions, credits }) =>
              balance !== undefined || charges.length + decisions.length + credits.length > 0,
          );
          const expected = {
            accounts: present.length,
            postings: present.reduce((sum, each) => sum + each.charges.length + each.credits.length, 0),
            differences: present.toSorted((a, b) => (a.accountId < b.accountId ? -1 : 1)).flatMap(expectedOf),
          };
          for (const pageRows of PAGES) {
            expect(await reconcileLedger(world.db, { pageRows })).toEqual(expected);
          }
        })
        .beforeEach(clear),
      { numRuns: 10 },
    );
  }, 120_000);

  test("keeps no snapshot between statements, even within one account", async () => {
    for (let n = 0; n < 3; n += 1) await insert(sound(seconds(9)));
    const held: number[] = [];
    const { seen, statements } = await look(3, async () => {
      const { rowCount } = await world.pool.query(
        `select from pg_stat_activity where datname = current_database() and application_name = 'test' and pid <> pg_backend_pid()
           and (backend_xmin is not null or state like 'idle in transaction%')`,
      );
      held.push(rowCount ?? 0);
    });
    expect(seen.differences).toEqual([]);
    expect(statements).toBeGreaterThan(3 * 4);
    expect(held).toEqual(held.map(() => 0));
  });

  test("finds no difference while decisions are written before, at and after its current position", async () => {
    const rows = sound(seconds(9));
    await insert(rows);
    const account_id = rows.accountId;
    for (const pageRows of PAGES) {
      const { seen } = await look(pageRows, async (statement) => {
        if (statement > 15) return;
        const at = [addSeconds(old, -statement), addSeconds(old, statement), new Date()];
        await world.db.transaction(async (tx) => {
          for (const moment of at) {
            await tx("ledger_postings").insert([
              posting(account_id, moment, "verification"),
              posting(account_id, moment, "alpha_credit", 3),
            ]);
            await tx("audit_events").insert(decision(account_id, moment));
          }
          await tx("balances")
            .where({ account_id })
            .increment("balance_micro_usd", 2 * at.length);
        });
      });
      expect(seen.differences).toEqual([]);
    }
  });

  test("reports a differing account's state at one point in time, even while decisions are made", async () => {
    const rows = { ...sound(seconds(9)), balance: 17 };
    await insert(rows);
    const account_id = rows.accountId;
    const { seen } = await look(2, async () => {
      await world.db.transaction(async (tx) => {
        await tx("balances").where({ account_id }).increment("balance_micro_usd", 1);
        await tx("ledger_postings").insert(posting(account_id, old, "alpha_credit"));
      });
    });
    const [difference, ...others] = seen.differences;
    expect([difference?.kind, (difference?.found ?? 0) - (difference?.expected ?? 0)]).toEqual([
      "balance",
      7,
    ]);
    expect(others).toEqual([]);
  });
});

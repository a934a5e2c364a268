import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { pino } from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  grantAlphaCredits,
  VERIFICATION_PRICE_MICRO_USD as price,
} from "../../../src/accounts/ledger/amounts.ts";
import type { LedgerDifference } from "../../../src/accounts/ledger/compare_balances.ts";
import {
  createReconciliation,
  readReconciliation,
  reconcileLedger,
} from "../../../src/accounts/ledger/reconcile.ts";
import { systemClock } from "../../../src/clock.ts";
import { type Database, openDatabase } from "../../../src/db/database.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { decisionWorld } from "../../proofs/decision_world.ts";
import { insertRecords, itemFor, type Records } from "../../proofs/records.ts";
import { migratedDatabase, type TestDatabase } from "../../support/postgres.ts";

const CREDIT = 10 * price;
const world = decisionWorld();
let fresh: TestDatabase;
let agreeing: Database;
beforeAll(async () => {
  fresh = await migratedDatabase();
  agreeing = openDatabase({ url: fresh.url, name: "test", onError: () => {} });
});
afterAll(async () => {
  await agreeing.destroy();
  await fresh.drop();
});

/** Creates an account with credit, and an allow, a deny and an indeterminate decision. */
async function account(db = world.db): Promise<Records> {
  const records = await insertRecords(db, 0);
  await db("balances").where({ account_id: records.accountId }).delete();
  await db.transaction((tx) =>
    grantAlphaCredits(tx, { accountId: records.accountId, amount: CREDIT }, new Date()),
  );
  if (db !== world.db) return records;
  const unknown = { accountId: records.accountId, certId: "cert-unknown" };
  await decideBatch(world.pool, [
    itemFor(records),
    itemFor(records, { decision: "deny", reason: "not_delegated" }),
    itemFor(records, { certificates: [unknown], certId: "cert-unknown" }),
  ]);
  return records;
}

/** Checks that an account's differences are the same for every page size, and returns them. */
async function found({ accountId }: Records): Promise<Omit<LedgerDifference, "account_id">[]> {
  const [first = [], ...others] = await Promise.all(
    [100_000, 1, 2, 7].map(async (pageRows) => {
      const { differences } = await reconcileLedger(world.db, { pageRows });
      return differences
        .filter(({ account_id }) => account_id === accountId)
        .map(({ account_id: _, ...difference }) => difference);
    }),
  );
  for (const other of others) expect(other).toEqual(first);
  return first;
}

const charge = (accountId: string, fields = {}) => ({
  account_id: accountId,
  posted_at: new Date("2026-02-01T00:00:00.000Z"),
  posting_id: randomBytes(32),
  kind: "verification" as const,
  debit_book: "credit",
  credit_book: "revenue",
  amount_micro_usd: price,
  ...fields,
});

describe("ledger reconciliation", () => {
  test("finds no difference after charged allow and deny decisions and an uncharged indeterminate decision", async () => {
    expect(await found(await account())).toEqual([]);
  });

  test("finds no difference while decisions are being made", async () => {
    const records = await account();
    const deciding = Promise.all(
      Array.from({ length: 60 }, () => decideBatch(world.pool, [itemFor(records)])),
    );
    for (let look = 0; look < 10; look += 1) expect(await found(records)).toEqual([]);
    await deciding;
    expect(await found(records)).toEqual([]);
  });

  test.each([1, -1])("finds a balance that is off by %i micro-USD", async (off) => {
    const records = await account();
    await world.db("balances").where({ account_id: records.accountId }).increment("balance_micro_usd", off);
    const expected = CREDIT - 2 * price;
    expect(await found(records)).toEqual([{ kind: "balance", expected, found: expected + off }]);
  });

  test("finds no difference for a decision that the verifier's account paid for", async () => {
    const [owner, verifier] = [await account(), await account()];
    const { accountId, connectionId } = verifier;
    await decideBatch(world.pool, [itemFor(owner, { accountId, connectionId })]);
    const paidByVerifier = { account_id: owner.accountId, verifier_account_id: accountId };
    expect(await world.db("audit_events").where(paidByVerifier)).toHaveLength(1);
    expect([await found(owner), await found(verifier)]).toEqual([[], []]);
  });

  test("finds a balance without postings, and postings without a balance", async () => {
    const without = await insertRecords(world.db, 5);
    expect(await found(without)).toEqual([{ kind: "balance", expected: 0, found: 5 }]);
    const lost = await account();
    await world.db("balances").where({ account_id: lost.accountId }).delete();
    expect(await found(lost)).toEqual([{ kind: "balance", expected: CREDIT - 2 * price, found: 0 }]);
  });

  test("finds posted credit that is missing in the balance, and a deleted credit posting", async () => {
    const records = await account();
    await world.db("ledger_postings").where({ account_id: records.accountId, kind: "alpha_credit" }).delete();
    const balance = CREDIT - 2 * price;
    expect(await found(records)).toEqual([{ kind: "balance", expected: balance - CREDIT, found: balance }]);
  });

  test("finds a charge without a decision, even if the balance includes the charge", async () => {
    const records = await account();
    await world.db("ledger_postings").insert(charge(records.accountId));
    await world.db("balances").where({ account_id: records.accountId }).decrement("balance_micro_usd", price);
    expect(await found(records)).toEqual([{ kind: "charge_without_decision", expected: 0, found: 1 }]);
  });

  test("finds a decision without a charge, even if the balance agrees with the charges", async () => {
    const records = await account();
    const [posting] = await world
      .db("ledger_postings")
      .where({ account_id: records.accountId, kind: "verification" });
    await world.db("ledger_postings").where({ posting_id: posting!.posting_id }).delete();
    await world.db("balances").where({ account_id: records.accountId }).increment("balance_micro_usd", price);
    expect(await found(records)).toEqual([{ kind: "decision_without_charge", expected: 0, found: 1 }]);
  });

  test("finds an invented charge that hides a missing charge, although the totals agree", async () => {
    const records = await account();
    const where = { account_id: records.accountId, kind: "verification" } as const;
    const [posting] = await world.db("ledger_postings").where(where);
    await world
      .db("ledger_postings")
      .where({ posting_id: posting!.posting_id })
      .update({ posted_at: new Date("2026-02-01T00:00:00.000Z") });
    expect(await found(records)).toEqual([
      { kind: "charge_without_decision", expected: 0, found: 1 },
      { kind: "decision_without_charge", expected: 0, found: 1 },
    ]);
  });

  test("finds a decision that was deleted from the history", async () => {
    const records = await account();
    const where = { account_id: records.accountId };
    await world
      .db("audit_events")
      .where({ ...where, decision: "deny" })
      .delete();
    expect(await found(records)).toEqual([{ kind: "charge_without_decision", expected: 0, found: 1 }]);
  });

  test("finds a posting between the wrong books, even if the balance is not affected", async () => {
    const records = await account();
    const stray = charge(records.accountId, {
      kind: "alpha_credit",
      debit_book: "grants",
      credit_book: "till",
    });
    await world.db("ledger_postings").insert(stray);
    expect(await found(records)).toEqual([{ kind: "books", expected: 0, found: 1 }]);
  });

  test("finds all postings of an account that does not exist", async () => {
    const accountId = randomUUID();
    await world.db("ledger_postings").insert(charge(accountId));
    expect(await found({ accountId } as Records)).toEqual([
      { kind: "balance", expected: -price, found: 0 },
      { kind: "charge_without_decision", expected: 0, found: 1 },
    ]);
  });

  test("changes nothing", async () => {
    const text = async () =>
      JSON.stringify(
        await Promise.all(
          ["balances", "ledger_postings", "audit_events"].map((table) =>
            world.db.raw(`select t::text from ${table} t order by 1`).then(({ rows }) => rows),
          ),
        ),
      );
    const before = await text();
    await reconcileLedger(world.db);
    expect(await text()).toBe(before);
  });
});

test("hourly reconciliation counts differences by kind, and logs them by account", async () => {
  const records = await account();
  await world.db("balances").where({ account_id: records.accountId }).increment("balance_micro_usd", 1);
  const registry = new Registry();
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  await createReconciliation({ database: world.db, clock: systemClock, log, metrics: { registry } })();
  const line = lines
    .map((each) => JSON.parse(each))
    .find(({ account_id }) => account_id === records.accountId);
  expect(line).toMatchObject({ level: 50, kind: "balance", found: CREDIT - 2 * price + 1 });
  const { differences, accounts } = await reconcileLedger(world.db);
  const balances = differences.filter(({ kind }) => kind === "balance").length;
  const text = await registry.metrics();
  expect(text).toContain(`deputize_ledger_differences{kind="balance"} ${balances}`);
  expect(text).toContain(`deputize_ledger_accounts ${accounts}`);
  expect(text).not.toContain(records.accountId);
  const kept = await readReconciliation(world.db);
  expect(kept?.content).toMatchObject({ accounts, differences: { balance: balances } });
  expect(JSON.stringify(kept)).not.toContain(records.accountId);
});

test("reconciliation logs the first hundred differences and the total number", async () => {
  await world.db("ledger_postings").insert(Array.from({ length: 51 }, () => charge(randomUUID())));
  const lines: string[] = [];
  await createReconciliation({
    database: world.db,
    clock: systemClock,
    log: pino({}, { write: (line) => lines.push(line) }),
  })();
  const { differences } = await reconcileLedger(world.db);
  expect(lines).toHaveLength(101);
  expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ level: 50, differences: differences.length });
});

describe("deputize reconcile", () => {
  async function run(url: string): Promise<{ status: number | null; out: string }> {
    const main = new URL("../../../src/main.ts", import.meta.url).pathname;
    const child = spawn(process.execPath, [main, "reconcile"], {
      env: { PATH: process.env.PATH, DATABASE_URL: url },
      stdio: ["ignore", "pipe", "ignore"],
    });
    const out = (await child.stdout.toArray()).join("");
    const status = child.exitCode ?? (await new Promise<number>((resolve) => child.once("exit", resolve)));
    return { status, out };
  }

  test("exits with 0 if everything agrees, with 1 and a line for each difference, and with 2 without a database", async () => {
    const records = await account(agreeing);
    expect(await run(fresh.url)).toEqual({ status: 0, out: '{"accounts":1,"postings":1,"differences":0}\n' });
    await agreeing("balances").where({ account_id: records.accountId }).increment("balance_micro_usd", 7);
    expect(await run(fresh.url)).toEqual({
      status: 1,
      out:
        `{"account_id":"${records.accountId}","kind":"balance","expected":${CREDIT},"found":${CREDIT + 7}}\n` +
        '{"accounts":1,"postings":1,"differences":1}\n',
    });
    const nowhere = new URL(fresh.url);
    nowhere.port = "1";
    expect((await run(nowhere.href)).status).toBe(3);
  }, 60_000);
});

import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import { creditSources } from "../../../src/accounts/ledger/credit_source.ts";
import type { BalanceSliceRow } from "../../../src/db/tables.ts";
import { decisionStatement } from "../../../src/proofs/decide/decide_and_charge.ts";
import { type DecisionItem, parametersOf } from "../../../src/proofs/decide/decision_item.ts";
import { decisionWorld } from "../decision_world.ts";
import { insertCertificate, insertRecords, itemFor, type Records } from "../records.ts";

const world = decisionWorld();

const TABLES = {
  audit_events: "event_id",
  balances: "account_id",
  balance_slices: "account_id",
  history_queue: "event_id",
  invocations: "event_id",
  ledger_postings: "posting_id",
  outbox: "aggregateid",
  spent_challenges: "challenge",
};

/**
 * States of an account's certificates: approved, revoked, under two different ceilings, bound to a customer
 * connection, and missing.
 */
const STATES = ["good", "revoked", "narrow", "closed", "bound", "missing"] as const;

const kinds = fc.record({
  account: fc.nat(2),
  states: fc.uniqueArray(fc.constantFrom(...STATES), { maxLength: 2 }),
  root: fc.constantFrom("own", "own", "nobody"),
  decision: fc.constantFrom("allow", "allow", "deny"),
  challenge: fc.nat(12),
  scope: fc.constantFrom("data:read", "payments:send"),
});

type Kind = typeof kinds extends fc.Arbitrary<infer Value> ? Value : never;

function itemOf(records: Records, kind: Kind, challenges: Buffer[]): DecisionItem {
  const isAllowed = kind.decision === "allow" && kind.root === "own";
  return itemFor(records, {
    challenge: challenges[kind.challenge] ?? randomBytes(32),
    requiredScope: kind.scope,
    rootAccountId: kind.root === "own" ? records.accountId : null,
    certificates:
      kind.root === "own"
        ? kind.states.map((state) => ({
            accountId: records.accountId,
            certId: `cert-${state}-${records.agentId}`,
          }))
        : [],
    ...(isAllowed
      ? {}
      : { decision: "deny", reason: kind.root === "own" ? "not_delegated" : "untrusted_root" }),
  });
}

async function insertStates(records: Records): Promise<void> {
  const changes = {
    good: {},
    revoked: { status: "revoked" as const },
    narrow: { ceiling_scope: ["data:read"] },
    closed: { ceiling_scope: [] },
    bound: { only_at: records.connectionId, ceiling_scope: [] },
  };
  for (const [state, change] of Object.entries(changes)) {
    const certId = `cert-${state}-${records.agentId}`;
    await insertCertificate(world.db, records, certId);
    await world
      .db("certificates")
      .where({ cert_id: certId })
      .update({ cert_id: certId, ...change });
  }
}

/** Returns the statement's result and the contents of the tables before the rollback. */
async function effectOf(
  { text, form }: ReturnType<typeof decisionStatement>,
  items: readonly DecisionItem[],
): Promise<unknown> {
  const client = await world.pool.connect();
  try {
    await client.query("begin");
    const { rows } = await client.query(text, parametersOf(items, price, form));
    const left: unknown[] = [];
    for (const [table, key] of Object.entries(TABLES)) {
      const shown = `to_jsonb(t)${table === "outbox" ? " - 'event_id' - 'id'" : ""}`;
      left.push(
        (await client.query(`select ${shown} as row from ${table} t order by ${key}, (${shown})::text`)).rows,
      );
    }
    return { answers: rows.sort((a, b) => a.n - b.n), left };
  } finally {
    await client.query("rollback");
    client.release();
  }
}

describe("a batch without operations and without roots of other accounts", () => {
  test.each(creditSources)(
    "has the same result with the short statement as with the whole statement that charges the %s",
    async (source) => {
      const accounts = await Promise.all(
        [100, 3, 1].map((credit) => insertRecords(world.db, credit * price)),
      );
      for (const records of accounts) await insertStates(records);
      const challenges = Array.from({ length: 10 }, () => randomBytes(32));
      for (const records of accounts) {
        await world.decideOne(itemFor(records, { challenge: challenges[0] as Buffer, certificates: [] }));
        const own = world.db("balances").where({ account_id: records.accountId });
        await own.clone().increment("balance_micro_usd", price);
        await own.clone().update({ terms: source === "invoice" ? "postpaid" : "prepaid" });
        if (source === "slices") {
          await world
            .db("balance_slices")
            .insert(
              (await own
                .clone()
                .first("account_id", world.db.raw("1 as slice"), "balance_micro_usd")) as BalanceSliceRow,
            );
          await own.clone().update({ balance_micro_usd: 0, is_split: true });
        }
      }
      const [first] = accounts as [Records];
      const bound = itemFor(first, { invocation: { id: "x", operationHash: randomBytes(32) } });
      const whole = decisionStatement([bound], source);
      expect(whole.name).toBe(`decide whole ${source}`);

      await fc.assert(
        fc.asyncProperty(fc.array(kinds, { minLength: 1, maxLength: 12 }), async (batch) => {
          const items = batch.map((kind) => itemOf(accounts[kind.account] as Records, kind, challenges));
          const plain = decisionStatement(items, source);
          expect(plain.name).toBe(`decide plain ${source}`);
          expect(await effectOf(plain, items)).toEqual(await effectOf(whole, items));
        }),
        { numRuns: 25 },
      );
    },
  );
});

import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import {
  grantAlphaCredits,
  VERIFICATION_PRICE_MICRO_USD as price,
} from "../../../src/accounts/ledger/amounts.ts";
import { readPostings } from "../../../src/accounts/ledger/credits_route.ts";
import { GrantError, grantCredits } from "../../../src/accounts/ledger/grants.ts";
import { reconcileLedger } from "../../../src/accounts/ledger/reconcile.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { decisionWorld } from "../../proofs/decision_world.ts";
import { insertRecords, itemFor, type Records } from "../../proofs/records.ts";

const world = decisionWorld();
const CREDIT = 10 * price;
const now = new Date("2026-05-01T10:00:00.000Z");

/** Creates an account in the state after onboarding. */
async function account(credit = CREDIT): Promise<Records> {
  const records = await insertRecords(world.db, 0);
  await world.db("balances").where({ account_id: records.accountId }).delete();
  await world.db.transaction((tx) =>
    grantAlphaCredits(tx, { accountId: records.accountId, amount: credit }, new Date("2026-01-01T00:00:00Z")),
  );
  return records;
}

const grantOf = ({ accountId }: Records, changes = {}) => ({
  accountId,
  amount: 5 * price,
  reason: "paid",
  reference: randomUUID(),
  ...changes,
});

const stateOf = async ({ accountId }: Records) => {
  const balance = await world.db("balances").where({ account_id: accountId }).first();
  const postings = await world.db("ledger_postings").where({ account_id: accountId, kind: "grant" });
  return {
    balance: balance?.balance_micro_usd,
    lowAt: balance?.low_at_micro_usd,
    granted: postings.map(({ amount_micro_usd }) => amount_micro_usd),
  };
};

const differencesOf = async ({ accountId }: Records) =>
  (await reconcileLedger(world.db)).differences.filter(({ account_id }) => account_id === accountId);

test("a grant creates one posting from grants to credit, with its reason and reference, and reconciliation finds no difference", async () => {
  const records = await account();
  const grant = grantOf(records);
  const posted = await grantCredits(world.db, grant, now);
  expect(posted).toMatchObject({ ...grant, repeated: false, balance: CREDIT + 5 * price, postedAt: now });
  const [posting] = await world.db("ledger_postings").where({ posting_id: posted.postingId });
  expect(posting).toEqual({
    account_id: records.accountId,
    posted_at: now,
    posting_id: posted.postingId,
    kind: "grant",
    debit_book: "grants",
    credit_book: "credit",
    amount_micro_usd: 5 * price,
  });
  const { items } = await readPostings(world.db, records.accountId, { limit: 25, cursor: undefined });
  expect(items.map(({ kind, reason, reference }) => [kind, reason, reference])).toEqual([
    ["grant", "paid", grant.reference],
    ["alpha_credit", undefined, undefined],
  ]);
  expect(await differencesOf(records)).toEqual([]);
});

test("reconciliation finds a grant posting without a recorded grant, or with a different amount than the grant", async () => {
  const records = await account();
  const { postingId, reference } = await grantCredits(world.db, grantOf(records), now);
  const difference = [{ account_id: records.accountId, kind: "grant_without_record", expected: 0, found: 1 }];
  const move = async (micro: number) => {
    await world.db("ledger_postings").where({ posting_id: postingId }).increment("amount_micro_usd", micro);
    await world.db("balances").where({ account_id: records.accountId }).increment("balance_micro_usd", micro);
  };
  await move(price);
  expect(await differencesOf(records)).toEqual(difference);
  await move(-price);
  expect(await differencesOf(records)).toEqual([]);
  await world.db("credit_grants").where({ reference }).delete();
  expect(await differencesOf(records)).toEqual(difference);
  const { differences } = await reconcileLedger(world.db, { pageRows: 1 });
  expect(differences).toEqual(expect.arrayContaining(difference));
});

test("reconciliation finds a grant that is missing in the balance or posted between the wrong books", async () => {
  const records = await account();
  const { postingId } = await grantCredits(world.db, grantOf(records), now);
  await world.db("ledger_postings").where({ posting_id: postingId }).update({ debit_book: "revenue" });
  expect(await differencesOf(records)).toMatchObject([{ kind: "books", found: 1 }]);
  await world.db("balances").where({ account_id: records.accountId }).decrement("balance_micro_usd", 1);
  expect(await differencesOf(records)).toMatchObject([{ kind: "balance" }, { kind: "books" }]);
});

test("a repeated grant with the same reference, account and amount returns the first posting and its reason", async () => {
  const records = await account();
  const grant = grantOf(records);
  const first = await grantCredits(world.db, grant, now);
  const second = await grantCredits(world.db, { ...grant, reason: "another" }, new Date());
  expect(second).toEqual({ ...first, repeated: true });
  expect(await stateOf(records)).toMatchObject({ balance: CREDIT + 5 * price, granted: [5 * price] });
});

test("a grant whose reference was used for a different amount or account is refused and changes nothing", async () => {
  const [records, other] = [await account(), await account()];
  const grant = grantOf(records);
  await grantCredits(world.db, grant, now);
  const refusals = [
    grantOf(records, { ...grant, amount: 1 }),
    grantOf(other, { reference: grant.reference }),
  ];
  const messages = await Promise.all(
    refusals.map((refused) =>
      grantCredits(world.db, refused, now).then(
        () => "granted",
        (error) => {
          expect(error).toBeInstanceOf(GrantError);
          return error.message;
        },
      ),
    ),
  );
  const start = `The reference ${grant.reference} was used before, to grant`;
  expect(messages).toEqual([
    `${start} 0.01 USD to this account; use a new reference`,
    `${start} credit to another account; use a new reference`,
  ]);
  expect(await stateOf(records)).toMatchObject({ balance: CREDIT + 5 * price, granted: [5 * price] });
  expect(await stateOf(other)).toMatchObject({ balance: CREDIT, granted: [] });
});

test("a grant to an account without a balance, or above the highest balance, is refused and leaves its reference unused", async () => {
  const records = await account();
  const byAccount = { account_id: records.accountId };
  const grant = grantOf(records);
  await world.db("balances").where(byAccount).update({ balance_micro_usd: 1e15 });
  await expect(grantCredits(world.db, grant, now)).rejects.toThrow("more than 1000000000.00 USD");
  await world.db("balances").where(byAccount).delete();
  await expect(grantCredits(world.db, grant, now)).rejects.toThrow("has not completed its onboarding");
  await world.db("balances").insert({ ...byAccount, balance_micro_usd: CREDIT });
  expect(await grantCredits(world.db, grant, now)).toMatchObject({ repeated: false });
});

test("a balance is low at 20 % of its value after the last grant", async () => {
  const records = await account();
  expect(await stateOf(records)).toMatchObject({ lowAt: 2 * price });
  await decideBatch(
    world.pool,
    Array.from({ length: 5 }, () => itemFor(records)),
  );
  await grantCredits(world.db, grantOf(records, { amount: 10 * price + 4 }), now);
  expect(await stateOf(records)).toMatchObject({ balance: 15 * price + 4, lowAt: 3 * price });
});

test("concurrent grants with one reference create one posting, even in the same millisecond", async () => {
  for (let round = 0; round < 30; round += 1) {
    const records = await account();
    const grant = grantOf(records);
    const posted = await Promise.all(Array.from({ length: 8 }, () => grantCredits(world.db, grant, now)));
    expect(posted.filter(({ repeated }) => !repeated)).toHaveLength(1);
    expect(await stateOf(records)).toMatchObject({ balance: CREDIT + 5 * price, granted: [5 * price] });
  }
});

test("concurrent grants and decisions lose no change", async () => {
  const records = await account(20 * price);
  const [hands, turns] = [4, 12];
  let decided = 0;
  await Promise.all(
    Array.from({ length: hands }, async () => {
      for (let turn = 0; turn < turns; turn += 1) {
        const deciding = decideBatch(world.pool, [itemFor(records), itemFor(records)]);
        await grantCredits(world.db, grantOf(records, { amount: price }), new Date());
        const outcomes = await deciding;
        decided += outcomes.filter(({ kind }) => kind === "decided").length;
      }
    }),
  );
  const grants = hands * turns;
  expect(decided).toBeGreaterThanOrEqual(20);
  expect(await stateOf(records)).toMatchObject({
    balance: (20 + grants - decided) * price,
    granted: Array(grants).fill(price),
  });
  expect(await differencesOf(records)).toEqual([]);
});

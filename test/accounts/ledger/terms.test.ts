import { describe, expect, test } from "vitest";
import { creditLevel, VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import { readPostings } from "../../../src/accounts/ledger/credits_route.ts";
import { changeTerms } from "../../../src/accounts/ledger/terms.ts";
import { createBatcher } from "../../../src/proofs/admission/batch.ts";
import { decisionWorld, placeOf } from "../../proofs/decision_world.ts";
import { itemFor } from "../../proofs/records.ts";
import { AMPLE, creditOf, itemsFor } from "./credit_world.ts";

const world = decisionWorld();
const { account, settle, stateOf, differencesOf } = creditOf(world);
const now = new Date("2026-05-01T10:00:00.000Z");

describe("a postpaid account", () => {
  const postpaid = { terms: "postpaid", reason: "contract 7" } as const;

  test("needs no credit, and its decisions are posted to be invoiced", async () => {
    const records = await account(2 * price);
    expect(await changeTerms(world.db, { ...records, ...postpaid }, now)).toBe(true);
    const decide = createBatcher(placeOf(world.pool));
    const outcomes = await Promise.all(itemsFor(records, 5).map((item) => decide(item)));
    expect(outcomes.map(({ kind }) => kind)).toEqual(Array(5).fill("decided"));
    expect(await world.balanceOf(records)).toBe(2 * price);
    const { items } = await readPostings(world.db, records.accountId, { limit: 10 });
    expect(items.map(({ kind, terms, amount_micro_usd }) => [kind, terms, amount_micro_usd])).toEqual([
      ["terms", "postpaid", 0],
      ...Array(5).fill(["verification", "postpaid", -price]),
      ["alpha_credit", undefined, 2 * price],
    ]);
    expect(items[0]?.reason).toBe("contract 7");
    expect(await differencesOf(records)).toEqual([]);
  });

  test("always has enough credit", () => {
    const credit = { balance_micro_usd: 0, low_at_micro_usd: price };
    expect(creditLevel({ ...credit, terms: "prepaid" })).toBe("exhausted");
    expect(creditLevel({ ...credit, terms: "postpaid" })).toBe("enough");
  });

  test("does not wait for its balance row", async () => {
    const records = await account(0.5 * price);
    await changeTerms(world.db, { ...records, ...postpaid }, now);
    const place = placeOf(world.pool);
    await place.sources.settle(world.pool, [records.accountId], "balance");
    const held = await world.hold("select from balances where account_id = $1 for update", [
      records.accountId,
    ]);
    expect(await createBatcher(place)(itemFor(records))).toMatchObject({ kind: "decided" });
    await held.commit();
  });

  test("uses its credit again after it became prepaid, even in a process that knew the former terms", async () => {
    const records = await account(AMPLE);
    const place = placeOf(world.pool);
    await settle(records);
    await changeTerms(world.db, { ...records, ...postpaid }, now);
    expect(await stateOf(records)).toEqual({ balance: AMPLE, isSplit: false, slices: [] });
    const decide = createBatcher(place);
    await decide(itemFor(records));
    expect(place.sources.of(records.accountId)).toBe("invoice");
    await changeTerms(world.db, { ...records, terms: "prepaid", reason: "left" }, now);
    expect(await decide(itemFor(records))).toMatchObject({ kind: "decided" });
    expect(await world.balanceOf(records)).toBe(AMPLE - price);
  });

  test("records nothing if the terms stay the same", async () => {
    const records = await account(0.5 * price);
    const prepaid = { ...records, terms: "prepaid", reason: "again" } as const;
    expect(await changeTerms(world.db, prepaid, now)).toBe(false);
    expect(await world.db("credit_terms").where({ account_id: records.accountId })).toEqual([]);
  });
});

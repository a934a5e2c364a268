import { VERIFICATION_PRICE_MICRO_USD as price } from "../../../src/accounts/ledger/amounts.ts";
import {
  type CreditSource,
  type Settled,
  settleSources,
} from "../../../src/accounts/ledger/credit_source.ts";
import { reconcileLedger } from "../../../src/accounts/ledger/reconcile.ts";
import type { DecisionItem } from "../../../src/proofs/decide/decision_item.ts";
import type { DecisionWorld } from "../../proofs/decision_world.ts";
import { insertRecords, itemFor, type Records } from "../../proofs/records.ts";

/** Credit that is far above its limits, so that it is split. */
export const AMPLE = 1_000_000 * price;

export const itemsFor = (records: Records, count: number): DecisionItem[] =>
  Array.from({ length: count }, () => itemFor(records));

/** Returns functions that prepare and read the credit of accounts in `world`. */
export function creditOf(world: DecisionWorld) {
  /** An account whose ledger explains its credit. */
  async function account(credit: number, lowAt = 0): Promise<Records> {
    const records = await insertRecords(world.db, credit);
    const own = { account_id: records.accountId };
    await world.db("balances").where(own).update({ low_at_micro_usd: lowAt });
    await world.db("ledger_postings").insert({
      ...own,
      posted_at: new Date("2025-12-01T00:00:00Z"),
      posting_id: Buffer.from(records.agentId, "hex"),
      kind: "alpha_credit",
      debit_book: "grants",
      credit_book: "credit",
      amount_micro_usd: credit,
    });
    return records;
  }

  /**
   * Moves credit from the balance to slices. `slices` has the number of decisions that each slice pays for.
   */
  async function split({ accountId }: Records, slices: number[]): Promise<void> {
    await world.db("balances").where({ account_id: accountId }).update({ is_split: true });
    for (const [n, decisions] of slices.entries()) {
      const balance_micro_usd = decisions * price;
      await world.db("balance_slices").insert({ account_id: accountId, slice: n + 1, balance_micro_usd });
      await world
        .db("balances")
        .where({ account_id: accountId })
        .decrement("balance_micro_usd", balance_micro_usd);
    }
  }

  const settle = async ({ accountId }: Records, former?: CreditSource) =>
    settledOf(await settleSources(world.pool, [accountId], former), accountId);

  async function stateOf({ accountId }: Records) {
    const own = { account_id: accountId };
    const balance = await world.db("balances").where(own).first();
    const slices = await world.db("balance_slices").where(own).orderBy("slice").pluck("balance_micro_usd");
    return { balance: balance?.balance_micro_usd, isSplit: balance?.is_split, slices };
  }

  const differencesOf = async ({ accountId }: Records) =>
    (await reconcileLedger(world.db)).differences.filter(({ account_id }) => account_id === accountId);

  return { account, split, settle, stateOf, differencesOf };
}

function settledOf(settled: Settled, accountId: string): CreditSource | "busy" | undefined {
  const result = settled.get(accountId);
  if (result?.status === "rejected") throw result.reason;
  return result?.value;
}

import type { Pool, PoolClient } from "pg";
import { type CreditSources, holdSource } from "../../accounts/ledger/credit_source.ts";
import { ApiError } from "../../errors.ts";
import { type DecisionOutcome, decideBatch } from "../decide/decision.ts";
import type { DecisionItem } from "../decide/decision_item.ts";

/** Decides items of one account in a transaction that holds what the account pays from. */
export async function decideHolding(pool: Pool, items: readonly DecisionItem[]): Promise<DecisionOutcome[]> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const outcomes = await decideHeld(client, items);
    await client.query("commit");
    client.release();
    return outcomes;
  } catch (error) {
    await client.query("rollback").then(
      () => client.release(),
      (broken: Error) => client.release(broken),
    );
    throw error;
  }
}

/** Decides one item in the client's transaction. Asks on another connection what the account pays from. */
export async function decideOne(
  client: PoolClient,
  item: DecisionItem,
  { pool, sources }: { pool: Pool; sources: CreditSources },
): Promise<DecisionOutcome> {
  const source = sources.of(item.accountId);
  const [first] = await decideBatch(client, [item], source, sources.onAmple);
  if (first !== undefined && first.kind !== "unfunded") return first;
  const settled = (await sources.settle(pool, [item.accountId], source)).get(item.accountId);
  if (settled === undefined) return { kind: "credits_exhausted" };
  if (settled.status === "rejected") throw settled.reason;
  const [held] = await decideHeld(client, [item]);
  if (held === undefined) throw new ApiError("unavailable");
  return held;
}

async function decideHeld(client: PoolClient, items: readonly DecisionItem[]): Promise<DecisionOutcome[]> {
  const source = await holdSource(client, items[0]?.accountId ?? "");
  const outcomes = await decideBatch(client, items, source);
  return outcomes.map((outcome) => {
    if (outcome.kind === "unfunded") throw new ApiError("unavailable");
    return outcome;
  });
}

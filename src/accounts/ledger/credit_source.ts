import { LRUCache } from "lru-cache";
import type { Pool, PoolClient } from "pg";
import { atMost } from "../../concurrency/at_most.ts";
import type { CreditTerms } from "../../db/tables.ts";
import { VERIFICATION_PRICE_MICRO_USD as PRICE } from "./amounts.ts";

/**
 * The sources that a decision can charge:
 *
 * - `balance`: the account's one balance. Its limits are exact, but decisions of the account wait for each
 *   other.
 * - `slices`: any free slice of the credit. Decisions do not wait for each other. Charging a slice never
 *   makes the credit low, and never uses it up.
 * - `invoice`: nothing. The account is postpaid.
 */
export const creditSources = ["balance", "slices", "invoice"] as const;
export type CreditSource = (typeof creditSources)[number];

/** The most decisions that one slice pays for. A slice is filled again when it is almost empty. */
const MOST_DECISIONS = 4_096;
/** A slice gets at most this part of the credit above the next limit, so that all callers get a slice. */
const PART = 1 / 32;
/** A slice pays for at least two full batches. If credit is too short for that, it is not split. */
const FEWEST_DECISIONS = 128;

type Balance = { balance_micro_usd: number; low_at_micro_usd: number };

/**
 * Returns the micro-USD that one slice may take from a balance, or 0 if the balance must not be split.
 *
 * The balance keeps more than the next limit: the low mark, or below it the price of one decision. So the
 * slices, which come on top, cannot cross a limit, however much of them is spent.
 */
export function sliceOf({ balance_micro_usd: balance, low_at_micro_usd: lowAt }: Balance): number {
  const above = balance - (balance > lowAt ? Math.max(lowAt, PRICE) : PRICE) - 1;
  const decisions = Math.min(MOST_DECISIONS, Math.floor((above * PART) / PRICE));
  return decisions < FEWEST_DECISIONS ? 0 : decisions * PRICE;
}

type Row = Balance & { terms: CreditTerms; is_split: boolean };

/**
 * Returns the source that each account's decisions must charge now. Omits accounts without a balance. Fills a
 * slice from a balance that is far above its limits. Puts almost empty slices back into a balance that is
 * near its limits. Returns `busy` if the slices still have credit, but the balance cannot fill another one:
 * see {@link holdSource}. `former` is the source that did not pay. Locks an account only while something
 * changes. If this change fails, the account's entry is a rejected result. The other accounts are settled all
 * the same.
 */
export async function settleSources(
  pool: Pool,
  accountIds: readonly string[],
  former: CreditSource = "balance",
): Promise<Map<string, PromiseSettledResult<CreditSource | "busy">>> {
  const { rows } = await pool.query<Row & { account_id: string }>(
    `select account_id, balance_micro_usd, low_at_micro_usd, terms, is_split from balances
     where account_id = any ($1::uuid[])`,
    [accountIds],
  );
  const settled = await Promise.allSettled(
    rows.map(async (row) => (isSettled(row, former) ? sourceOf(row) : change(pool, row.account_id, former))),
  );
  return new Map(settled.map((result, n) => [rows[n]?.account_id ?? "", result]));
}

function sourceOf({ terms, is_split }: Row): CreditSource {
  if (terms === "postpaid") return "invoice";
  return is_split ? "slices" : "balance";
}

/** Returns whether the account can pay from its source as it is. */
function isSettled(row: Row, former: CreditSource): boolean {
  if (row.terms === "postpaid") return true;
  return row.is_split ? former !== "slices" : sliceOf(row) === 0;
}

async function change(pool: Pool, accountId: string, former: CreditSource): Promise<CreditSource | "busy"> {
  const tx = await pool.connect();
  try {
    await tx.query("begin");
    const settled = await changeLocked(tx, accountId, former);
    await tx.query("commit");
    tx.release();
    return settled;
  } catch (error) {
    await tx.query("rollback").then(
      () => tx.release(),
      (broken: Error) => tx.release(broken),
    );
    throw error;
  }
}

/** Returns the source. `busy`: slices have credit, but other decisions may be charging all of them. */
async function changeLocked(
  tx: PoolClient,
  accountId: string,
  former: CreditSource,
): Promise<CreditSource | "busy"> {
  let row = await lockBalance(tx, accountId);
  if (isSettled(row, former)) return sourceOf(row);
  if (row.is_split && sliceOf(row) === 0) {
    if (await haveCredit(tx, accountId)) return "busy";
    await tx.query("select join_slices($1)", [accountId]);
    row = await lockBalance(tx, accountId);
  }
  const part = sliceOf(row);
  if (part === 0) return "balance";
  await fillSlice(tx, accountId, part);
  return "slices";
}

async function lockBalance(tx: PoolClient, accountId: string): Promise<Row> {
  const { rows } = await tx.query<Row>(
    `select balance_micro_usd, low_at_micro_usd, terms, is_split from balances
     where account_id = $1 for update`,
    [accountId],
  );
  if (rows[0] === undefined) throw new Error(`The account ${accountId} lost its balance`);
  return rows[0];
}

const FULL_ENOUGH = "account_id = $1 and balance_micro_usd >= $2";

async function haveCredit(tx: PoolClient, accountId: string): Promise<boolean> {
  const { rowCount } = await tx.query(`select from balance_slices where ${FULL_ENOUGH} limit 1`, [
    accountId,
    FEWEST_DECISIONS * PRICE,
  ]);
  return rowCount !== 0;
}

/**
 * Locks what the account can pay from until the transaction ends, and returns it. So no other decision can
 * take it first. Waits for a slice, where any will do, so that callers spread. If no slice pays for a full
 * batch, puts all slices back, and holds the balance.
 */
export async function holdSource(tx: PoolClient, accountId: string): Promise<CreditSource> {
  for (const which of [
    "order by slice limit 1 for update skip locked",
    "order by random() limit 1 for update",
  ]) {
    const { rowCount } = await tx.query(`select from balance_slices where ${FULL_ENOUGH} ${which}`, [
      accountId,
      FEWEST_DECISIONS * PRICE,
    ]);
    if (rowCount === 1) return "slices";
  }
  await tx.query("select join_slices($1)", [accountId]);
  return sourceOf(await lockBalance(tx, accountId));
}

/**
 * Fills a slice that is free and almost empty. If there is none, all slices are in use: adds one. So an
 * account never has more slices than statements that charged it at the same time.
 */
async function fillSlice(tx: PoolClient, accountId: string, part: number): Promise<void> {
  await tx.query(
    `with low as (
       select slice from balance_slices where account_id = $1 and balance_micro_usd < $3
       order by slice limit 1 for update skip locked
     ),
     own as (
       select coalesce(max(slice), 0) as last from balance_slices where account_id = $1
     ),
     filled as (
       insert into balance_slices (account_id, slice, balance_micro_usd)
       select $1, coalesce((select slice from low), last + 1), $2 from own
       on conflict (account_id, slice) do update
         set balance_micro_usd = balance_slices.balance_micro_usd + excluded.balance_micro_usd
       returning account_id
     )
     update balances set is_split = true, balance_micro_usd = balance_micro_usd - $2
     where account_id in (select account_id from filled)`,
    [accountId, part, FEWEST_DECISIONS * PRICE],
  );
}

/** Results by account. An account without a balance has none. */
export type Settled = Awaited<ReturnType<typeof settleSources>>;

/** A process's memory of the sources that accounts pay from. A wrong entry costs one more statement. */
export type CreditSources = {
  of(accountId: string): CreditSource;
  /** Notes that the account's credit is far above its limits. */
  onAmple(accountId: string): void;
  /**
   * Asks the database for the sources again, because `former` did not pay. See {@link settleSources}.
   */
  settle(pool: Pool, accountIds: readonly string[], former: CreditSource): Promise<Settled>;
};

const REMEMBERED_ACCOUNTS = 4_096;

/** Creates the memory of one process. Every account starts with `balance`. */
export function createCreditSources(): CreditSources {
  const known = new LRUCache<string, CreditSource>(atMost(REMEMBERED_ACCOUNTS));
  return {
    of: (accountId) => known.get(accountId) ?? "balance",
    onAmple: (accountId) => void known.set(accountId, "slices"),
    async settle(pool, accountIds, former) {
      const settled = await settleSources(pool, accountIds, former);
      for (const [accountId, result] of settled) {
        if (result.status === "rejected") continue;
        known.set(accountId, result.value === "busy" ? "slices" : result.value);
      }
      return settled;
    },
  };
}

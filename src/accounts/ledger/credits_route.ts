import { z } from "zod";
import type { Database } from "../../db/database.ts";
import type { CreditGrantRow, LedgerPostingRow } from "../../db/tables.ts";
import { type Page, type PageOrder, type PageQuery, pageQuery, readPage } from "../../input/pagination.ts";
import { isoTime } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import { formatUsd, VERIFICATION_PRICE_MICRO_USD } from "./amounts.ts";

const posting = z.object({
  posting_id: z.string().describe("64 hex digits"),
  posted_at: isoTime,
  kind: z.enum(["alpha_credit", "grant", "verification"]),
  amount_micro_usd: z.int().describe("The change of the balance; negative for a charge"),
  reason: z.string().optional().describe("Reason for a grant"),
  reference: z.string().optional().describe("Unique reference of a grant, such as an invoice number"),
});

type Posting = z.infer<typeof posting>;
type Row = LedgerPostingRow &
  Pick<{ [K in keyof CreditGrantRow]: CreditGrantRow[K] | null }, "reason" | "reference">;

const POSTING_ID = /^\\x[0-9a-f]{64}$/;
const newestFirst: PageOrder = {
  time: "p.posted_at",
  id: "p.posting_id",
  isId: (text) => POSTING_ID.test(text),
};

/**
 * Returns one page of postings, newest first. Throws `invalid_request` if the cursor is not from an earlier
 * page.
 */
export async function readPostings(
  db: Database,
  accountId: string,
  page: PageQuery,
): Promise<{ items: Posting[]; next_cursor: string | null }> {
  const query = db("ledger_postings as p")
    .leftJoin("credit_grants as g", (on) =>
      on
        .on("g.account_id", "p.account_id")
        .andOn("g.posted_at", "p.posted_at")
        .andOn("g.posting_id", "p.posting_id"),
    )
    .where("p.account_id", accountId)
    .select("p.*", "g.reason", "g.reference");
  const { rows, next_cursor }: Page<Row> = await readPage<Row>(query, newestFirst, page);
  return { items: rows.map(show), next_cursor };
}

function show(row: Row): Posting {
  return {
    posting_id: row.posting_id.toString("hex"),
    posted_at: row.posted_at.toISOString(),
    kind: row.kind,
    amount_micro_usd: row.credit_book === "credit" ? row.amount_micro_usd : -row.amount_micro_usd,
    ...(row.reason === null ? {} : { reason: row.reason }),
    ...(row.reference === null ? {} : { reference: row.reference }),
  };
}

const creditState = z.object({
  balance_micro_usd: z.int(),
  balance_usd: z.string().describe("The balance in US dollars, exactly"),
  price_micro_usd: z.int().describe("The price of one decision"),
  low_at_micro_usd: z
    .int()
    .describe("The balance counts as low at this value or below: 20 % of the balance after the last credit"),
  currency: z.literal("USD"),
});

const answer = creditState.extend({
  items: z.array(posting).optional().describe("Postings, newest first; omitted for an API key"),
  next_cursor: z.string().nullable().optional(),
});
/** The answer of `GET /v1/service/credits`. */
export type CreditsAnswer = z.infer<typeof answer>;

/** Returns the balance of an account and the price of a decision. */
export async function readCreditState(db: Database, accountId: string): Promise<z.infer<typeof creditState>> {
  const row = await db("balances").where({ account_id: accountId }).first();
  if (row === undefined) throw new Error("An account that completed its onboarding has no balance");
  return {
    balance_micro_usd: row.balance_micro_usd,
    balance_usd: formatUsd(row.balance_micro_usd),
    price_micro_usd: VERIFICATION_PRICE_MICRO_USD,
    low_at_micro_usd: row.low_at_micro_usd,
    currency: "USD",
  };
}

/**
 * `GET /v1/service/credits`: the balance that pays for decisions, and its postings. An application sees no
 * postings, because they also show the account's other connections.
 */
export function creditsRoute({ db }: { db: Database }): Route {
  return route({
    id: "get_credits",
    method: "GET",
    path: "/v1/service/credits",
    summary: "See the account's credit and its postings",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    query: pageQuery,
    answer: {
      status: 200,
      schema: answer,
      description: "The balance, and with a session a page of postings",
    },
    errors: [],
    async handle({ caller: { accountId, connectionId }, query }) {
      const state = await readCreditState(db, accountId);
      const postings = connectionId === null ? await readPostings(db, accountId, query) : {};
      return { body: { ...state, ...postings } };
    },
  });
}

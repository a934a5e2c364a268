import { z } from "zod";
import type { Database } from "../../db/database.ts";
import type { CreditTerms, LedgerPostingRow } from "../../db/tables.ts";
import { type Page, type PageOrder, type PageQuery, pageQuery, readPage } from "../../input/pagination.ts";
import { isoTime } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import { formatUsd, VERIFICATION_PRICE_MICRO_USD } from "./amounts.ts";

const creditTerms = z.enum(["prepaid", "postpaid"]);

const posting = z.object({
  posting_id: z.string().describe("64 hex digits"),
  posted_at: isoTime,
  kind: z.enum(["alpha_credit", "grant", "verification", "terms"]),
  amount_micro_usd: z.int().describe("Negative for a charge; 0 for a change of the terms"),
  terms: creditTerms.optional().describe("The new terms; or `postpaid` for a charge that is invoiced"),
  reason: z.string().optional().describe("Reason for a grant or for new terms"),
  reference: z.string().optional().describe("Unique reference of a grant, such as an invoice number"),
});

type Posting = z.infer<typeof posting>;
type Row = Omit<LedgerPostingRow, "kind"> & {
  kind: Posting["kind"];
  reason: string | null;
  reference: string | null;
  terms: CreditTerms | null;
};

const POSTING_ID = /^\\x[0-9a-f]{64}$/;
const newestFirst: PageOrder = {
  time: "p.posted_at",
  id: "p.posting_id",
  isId: (text) => POSTING_ID.test(text),
};

/**
 * Returns one page of postings and of changes of the terms, newest first. Throws `invalid_request` if the
 * cursor is not from an earlier page.
 */
export async function readPostings(
  db: Database,
  accountId: string,
  page: PageQuery,
): Promise<{ items: Posting[]; next_cursor: string | null }> {
  const postings = db.raw(
    `(select account_id, posted_at, posting_id, kind, debit_book, credit_book, amount_micro_usd,
             case debit_book when 'receivable' then 'postpaid' end as terms, null as terms_reason
      from ledger_postings where account_id = :accountId
      union all
      select account_id, posted_at, posting_id, 'terms', 'terms', 'credit', 0, terms, reason
      from credit_terms where account_id = :accountId) as p`,
    { accountId },
  );
  const query = db(postings)
    .leftJoin("credit_grants as g", (on) =>
      on
        .on("g.account_id", "p.account_id")
        .andOn("g.posted_at", "p.posted_at")
        .andOn("g.posting_id", "p.posting_id"),
    )
    .select("p.*", db.raw("coalesce(g.reason, p.terms_reason) as reason"), "g.reference");
  const { rows, next_cursor }: Page<Row> = await readPage<Row>(query, newestFirst, page);
  return { items: rows.map(show), next_cursor };
}

function show(row: Row): Posting {
  return {
    posting_id: row.posting_id.toString("hex"),
    posted_at: row.posted_at.toISOString(),
    kind: row.kind,
    amount_micro_usd: row.credit_book === "credit" ? row.amount_micro_usd : -row.amount_micro_usd,
    ...(row.terms === null ? {} : { terms: row.terms }),
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
  terms: creditTerms.describe("Postpaid accounts are invoiced; their decisions do not use the balance"),
});

const answer = creditState.extend({
  items: z.array(posting).optional().describe("Postings, newest first; omitted for an API key"),
  next_cursor: z.string().nullable().optional(),
});
/** The answer of `GET /v1/service/credits`. */
export type CreditsAnswer = z.infer<typeof answer>;

/** Returns the balance of an account and the price of a decision. */
export async function readCreditState(db: Database, accountId: string): Promise<z.infer<typeof creditState>> {
  const row = await db("account_credit").where({ account_id: accountId }).first();
  if (row === undefined) throw new Error("An account that completed its onboarding has no balance");
  return {
    balance_micro_usd: row.balance_micro_usd,
    balance_usd: formatUsd(row.balance_micro_usd),
    price_micro_usd: VERIFICATION_PRICE_MICRO_USD,
    low_at_micro_usd: row.low_at_micro_usd,
    currency: "USD",
    terms: row.terms,
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

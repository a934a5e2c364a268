import { z } from "zod";
import type { Database } from "../../db/database.ts";
import type { CreditGrantRow, LedgerPostingRow } from "../../db/tables.ts";
import { type Page, type PageOrder, type PageQuery, readPage } from "../../input/pagination.ts";
import { isoTime } from "../../input/schemas.ts";

/** A posting of an account's ledger as its owner sees it. */
export const posting = z.object({
  posting_id: z.string().describe("64 hex digits"),
  posted_at: isoTime,
  kind: z.enum(["alpha_credit", "grant", "verification"]),
  amount_micro_usd: z.int().describe("What it did to the balance: less than 0 for a charge"),
  reason: z.string().optional().describe("Why a grant was made"),
  reference: z.string().optional().describe("What a grant was made for; used once"),
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
 * One page of an account's postings, newest first. Throws `invalid_request` for a cursor that no such page
 * gave.
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

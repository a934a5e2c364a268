import { z } from "zod";
import type { Database } from "../../db/database.ts";
import { pageQuery } from "../../input/pagination.ts";
import { type Route, route } from "../../route.ts";
import { posting, readPostings } from "./postings.ts";
import { VERIFICATION_PRICE_MICRO_USD } from "./price.ts";
import { formatUsd } from "./usd.ts";

/** What an account has, and what a decision takes of it. */
export const creditState = z.object({
  balance_micro_usd: z.int(),
  balance_usd: z.string().describe("The same in US dollars, exactly"),
  price_micro_usd: z.int().describe("What a decision costs"),
  low_at_micro_usd: z
    .int()
    .describe("A balance that falls to this is low: 20 % of what the last credit made it"),
  currency: z.literal("USD"),
});

const answer = creditState.extend({
  items: z.array(posting).optional().describe("Postings, newest first; left out with an API key"),
  next_cursor: z.string().nullable().optional(),
});
/** What it answers. */
export type CreditsAnswer = z.infer<typeof answer>;

/** What the account of this id has. */
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
 * `GET /v1/service/credits`: the balance that decisions are charged to, and the postings that made it. An
 * application gets the balance, which its decisions depend on, and no postings: they tell of the account's
 * other connections too.
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

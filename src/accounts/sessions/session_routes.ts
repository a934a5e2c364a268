import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { memberRoles, type Route, route } from "../../route.ts";
import { type CreditLevel, creditLevel, creditLevels } from "../ledger/amounts.ts";
import { mayApprove } from "../member_role.ts";
import { clearedCookies } from "./sessions.ts";

/** The steps of onboarding, in order. */
export const onboardingStep = z.enum(["profile", "account_type", "complete"]);

const answer = z.object({
  account_id: z.uuid(),
  email: z.string(),
  first_name: z.string().nullable(),
  last_name: z.string().nullable(),
  onboarding_step: onboardingStep,
  account_type: z.enum(["individual", "organization"]).nullable(),
  organization_name: z.string().nullable(),
  human_id: z.string().nullable().describe("The account's root identity, once onboarding is complete"),
  credits: z.int().describe("Balance in micro-USD"),
  expires_at: z.iso.datetime().describe("End of the session"),
  service_administrator: z
    .boolean()
    .describe("Whether the person is a service administrator, who may see the state of the installation"),
  accounts: z
    .array(
      z.object({
        account_id: z.uuid(),
        organization_name: z.string().nullable(),
        role: z.enum(memberRoles),
        credit: z
          .enum(creditLevels)
          .nullable()
          .describe(
            "`low`: at most 20 % of the balance after the last credit; `exhausted`: not enough for a decision; null before onboarding is complete",
          ),
        waiting: z.int().describe("Requests that the person may decide, up to 99"),
      }),
    )
    .describe(
      "Accounts that the person may act for: their own, then organizations that they are a member of",
    ),
});
/** The answer of `GET /v1/auth/session`. */
export type SessionAnswer = z.infer<typeof answer>;

/** `GET /v1/auth/session`: the signed-in person, their onboarding step and their remaining credit. */
export function sessionRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "get_session",
    method: "GET",
    path: "/v1/auth/session",
    summary: "See who is signed in",
    access: "session",
    roles: "person",
    onboarding: "any",
    answer: { status: 200, schema: answer, description: "The session and its account" },
    errors: [],
    async handle({ caller }) {
      const row = await db("sessions as s")
        .join("accounts as a", "a.account_id", "s.account_id")
        .leftJoin("account_credit as b", "b.account_id", "a.account_id")
        .where("s.session_id", caller.sessionId)
        .first(
          "a.account_id",
          "a.email",
          "a.first_name",
          "a.last_name",
          "a.onboarding_step",
          "a.account_type",
          "a.organization_name",
          "a.human_id",
          "a.own_role",
          "b.balance_micro_usd",
          "b.low_at_micro_usd",
          "b.terms",
          "s.expires_at",
        );
      if (row === undefined) throw new Error("The session disappeared during the call");
      const { balance_micro_usd, low_at_micro_usd, terms, expires_at, own_role, ...account } = row;
      const { account_id, organization_name } = account;
      const credit = levelOf({ balance_micro_usd, low_at_micro_usd, terms });
      const own = own_role === null ? [] : [{ account_id, organization_name, role: own_role, credit }];
      const accounts = [...own, ...(await findMemberships(db, account_id))];
      const waiting = await countWaiting(
        db,
        account_id,
        accounts.filter(({ role }) => mayApprove(role)),
        clock.now(),
      );
      return {
        body: {
          ...account,
          credits: own_role === null ? 0 : (balance_micro_usd ?? 0),
          expires_at: expires_at.toISOString(),
          service_administrator: caller.serviceAdministrator,
          accounts: accounts.map((each) => ({ ...each, waiting: waiting.get(each.account_id) ?? 0 })),
        },
      };
    },
  });
}

/** The highest number of waiting requests that is counted for an account. */
export const MOST_WAITING = 99;

/** Returns by account how many requests the person may decide. */
async function countWaiting(
  db: Database,
  person: string,
  accounts: { account_id: string }[],
  now: Date,
): Promise<Map<string, number>> {
  const { rows } = await db.raw<{ rows: { account_id: string; waiting: number }[] }>(
    `select a.account_id, (
       select count(*)::int from (
         select from delegation_requests r
         where r.account_id = a.account_id and r.status = 'pending' and r.expires_at > :now
           and not (a.four_eyes and coalesce(r.requested_by, r.connected_by) is not distinct from :person)
         limit ${MOST_WAITING}
       ) as pending
     ) as waiting
     from accounts a where a.account_id = any(:ids::uuid[])`,
    { ids: accounts.map(({ account_id }) => account_id), person, now },
  );
  return new Map(rows.map(({ account_id, waiting }) => [account_id, waiting]));
}

async function findMemberships(db: Database, accountId: string) {
  const rows = await db("organization_members as m")
    .join("accounts as a", "a.account_id", "m.organization_id")
    .leftJoin("account_credit as b", "b.account_id", "a.account_id")
    .where("m.account_id", accountId)
    .orderBy(["m.joined_at", "m.organization_id"])
    .select(
      "a.account_id",
      "a.organization_name",
      "m.role",
      "b.balance_micro_usd",
      "b.low_at_micro_usd",
      "b.terms",
    );
  return rows.map(({ balance_micro_usd, low_at_micro_usd, terms, ...account }) => ({
    ...account,
    credit: levelOf({ balance_micro_usd, low_at_micro_usd, terms }),
  }));
}

type Credit = Parameters<typeof creditLevel>[0];

/** Returns the level of the credit, or null for an account without a balance. */
function levelOf(credit: { [K in keyof Credit]: Credit[K] | null }): CreditLevel | null {
  const { balance_micro_usd, low_at_micro_usd, terms } = credit;
  if (balance_micro_usd === null || low_at_micro_usd === null || terms === null) return null;
  return creditLevel({ balance_micro_usd, low_at_micro_usd, terms });
}

const signOutBody = z
  .object({
    everywhere: z.boolean().default(false).describe("End every session of the account, not only this one"),
  })
  .default({ everywhere: false });
const signOutAnswer = z.object({ status: z.literal("signed_out") });

/** `POST /v1/auth/logout`: permanently ends the session's family, or all families of the account. */
export function logoutRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "logout",
    method: "POST",
    path: "/v1/auth/logout",
    summary: "Sign out",
    access: "session",
    ends: true,
    roles: "person",
    onboarding: "any",
    body: signOutBody,
    answer: {
      status: 200,
      schema: signOutAnswer,
      description: "Signed out; the cookies are cleared",
      headers: { "Set-Cookie": "The three cookies, emptied" },
    },
    errors: [],
    async handle({ caller, body: { everywhere } }) {
      await db("session_families")
        .where("account_id", caller.accountId)
        .modify((families) => (everywhere ? families : families.where("family_id", caller.familyId)))
        .whereNull("ended_at")
        .update({ ended_at: clock.now(), end_reason: "logout" });
      return { body: { status: "signed_out" as const }, cookies: clearedCookies };
    },
  });
}

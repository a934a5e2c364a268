import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { type Route, route } from "../../route.ts";
import { clearedCookies } from "./sessions.ts";

const body = z
  .object({
    everywhere: z.boolean().default(false).describe("End every session of the account, not only this one"),
  })
  .default({ everywhere: false });
const answer = z.object({ status: z.literal("signed_out") });

/**
 * `POST /v1/auth/logout`: ends the session's family, or all of the account's, immediately and permanently.
 */
export function logoutRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "logout",
    method: "POST",
    path: "/v1/auth/logout",
    summary: "Sign out",
    access: "session",
    roles: "person",
    onboarding: "any",
    body,
    answer: {
      status: 200,
      schema: answer,
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

import Bowser from "bowser";
import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { isUuid } from "../../ids.ts";
import { idText } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import { clearedCookies, familyEnd } from "./sessions.ts";

type Deps = { db: Database; clock: Clock; signInDays: number };

/** Most sign-ins that the list shows. `logout` with `everywhere` ends the others too. */
const MOST = 100;

const path = "/v1/auth/sessions";

const item = z.object({
  session_id: z.uuid().describe("Id of the sign-in; the same after each renewal"),
  device: z
    .string()
    .nullable()
    .describe("Browser and system, as the browser names itself; null if it does not"),
  signed_in_at: z.iso.datetime(),
  used_at: z.iso
    .datetime()
    .describe("When the session was last renewed, at most 15 minutes before its last use"),
  ends_at: z.iso.datetime().describe("When the person must sign in again"),
  current: z.boolean().describe("Whether this call belongs to it"),
});
const list = z.object({ sessions: z.array(item) });
/** The sign-ins of a person, as the API returns them. */
export type SessionsAnswer = z.infer<typeof list>;

const ended = z.object({ session_id: z.uuid(), ended: z.literal(true) });

/** Returns the operations with which people see where they are signed in, and end a sign-in. */
export function ownSessionRoutes(deps: Deps): Route[] {
  return [listRoute(deps), endRoute(deps)];
}

function listRoute({ db, clock, signInDays }: Deps): Route {
  return route({
    id: "list_sessions",
    method: "GET",
    path,
    summary: "See where the person is signed in",
    access: "session",
    roles: "person",
    onboarding: "any",
    answer: { status: 200, schema: list, description: `The newest ${MOST} sign-ins that have not ended` },
    errors: [],
    async handle({ caller }) {
      const now = clock.now();
      const rows = await db("session_families as f")
        .join("sessions as s", "s.family_id", "f.family_id")
        .where("f.account_id", caller.person.accountId)
        .whereNull("f.ended_at")
        .whereNull("s.refreshed_at")
        .where("s.refresh_expires_at", ">", now)
        .orderBy([
          { column: "s.created_at", order: "desc" },
          { column: "f.family_id", order: "desc" },
        ])
        .limit(MOST)
        .select("f.family_id", "f.created_at", "f.user_agent", "s.created_at as used_at");
      const sessions = rows
        .map((row) => ({ ...row, endsAt: familyEnd(row.created_at, signInDays) }))
        .filter(({ endsAt }) => endsAt > now)
        .map(({ family_id, created_at, user_agent, used_at, endsAt }) => ({
          session_id: family_id,
          device: deviceOf(user_agent),
          signed_in_at: created_at.toISOString(),
          used_at: used_at.toISOString(),
          ends_at: endsAt.toISOString(),
          current: family_id === caller.familyId,
        }));
      return { body: { sessions } };
    },
  });
}

function endRoute({ db, clock }: Deps): Route {
  return route({
    id: "end_session",
    method: "DELETE",
    path: `${path}/{session_id}`,
    summary: "End one sign-in of the person",
    access: "session",
    ends: true,
    roles: "person",
    onboarding: "any",
    params: z.object({ session_id: idText }),
    answer: {
      status: 200,
      schema: ended,
      description: "Ended; if it was the caller's own, the cookies are cleared",
    },
    errors: ["not_found"],
    async handle({ caller, params: { session_id } }) {
      const count = isUuid(session_id)
        ? await db("session_families")
            .where({ account_id: caller.person.accountId, family_id: session_id })
            .whereNull("ended_at")
            .update({ ended_at: clock.now(), end_reason: "logout" })
        : 0;
      if (count === 0) throw new ApiError("not_found");
      return {
        body: { session_id, ended: true as const },
        ...(session_id === caller.familyId && { cookies: clearedCookies }),
      };
    },
  });
}

/** Longest name of a program that is shown, in characters. */
const LONGEST_NAME = 32;

/**
 * Names of browsers that the parser knows. For others it returns whatever the user agent says, which could
 * imitate the words of a page.
 */
const BROWSERS: ReadonlySet<string> = new Set(Object.values(Bowser.BROWSER_MAP));

/** Returns a user agent's browser and system, such as "Firefox on Linux", or a program such as "curl". */
export function deviceOf(userAgent: string | null): string | null {
  if (userAgent === null || userAgent === "") return null;
  const { browser, os } = Bowser.parse(userAgent);
  const program = BROWSERS.has(browser.name ?? "")
    ? browser.name
    : /^[A-Za-z][\w.-]*/.exec(userAgent)?.[0]?.slice(0, LONGEST_NAME);
  if (!program) return null;
  return os.name ? `${program} on ${os.name}` : program;
}

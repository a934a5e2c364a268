import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/connection.ts";
import type { SessionRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { type Answer, type Route, route } from "../route.ts";
import { csrfMatches } from "./csrf.ts";
import { hashToken, type NewSession, sessionCookies, startSession } from "./sessions.ts";

const answer = z.object({ expires_at: z.iso.datetime().describe("End of the new session") });

type Outcome = { kind: "refreshed"; session: NewSession } | { kind: "ended" | "unknown" };

/**
 * `POST /v1/auth/refresh`: the next session of the family, with a new refresh and CSRF token; the one before ends now.
 *
 * It works on the refresh cookie alone, because the session it renews has usually expired. The CSRF header is checked
 * against the refreshed session first; without it nothing is changed and nothing counts as used.
 *
 * A refresh token that comes a second time is held by two parties, one of whom stole it, and nobody can tell which: the
 * family ends, and everybody who has a part of it must sign in again. So two honest refreshes at once from one browser
 * end its session too, whichever answer comes first. A page that may be open twice has to take turns (the Web Locks
 * API), and a client that lost the answer to a refresh signs in again instead of repeating it.
 */
export function refreshRoute({ db, clock, log }: { db: Database; clock: Clock; log: Logger }): Route {
  return route({
    id: "refresh_session",
    method: "POST",
    path: "/v1/auth/refresh",
    summary: "Renew the session with the refresh cookie; needs the CSRF header",
    access: "public",
    demands: ["refresh", "csrf"],
    answer: {
      status: 200,
      schema: answer,
      description: "Session, refresh and CSRF cookies are replaced",
      headers: { "Set-Cookie": "The three cookies of the next session" },
    },
    errors: ["auth_required", "csrf_failed"],
    async handle(call): Promise<Answer<z.infer<typeof answer>>> {
      const token = call.cookie("refresh");
      if (token === undefined) throw new ApiError("auth_required");
      const refreshHash = hashToken(token);
      const csrf = await db("sessions").where("refresh_hash", refreshHash).first("csrf_hash");
      if (csrf === undefined) throw new ApiError("auth_required");
      if (!csrfMatches(call.cookie("csrf"), call.header("x-service-csrf"), csrf.csrf_hash)) {
        throw new ApiError("csrf_failed");
      }
      const outcome = await db.transaction((tx) => refreshOnce(tx, refreshHash, clock.now(), log));
      if (outcome.kind !== "refreshed") throw new ApiError("auth_required");
      const { session } = outcome;
      return { body: { expires_at: session.expiresAt.toISOString() }, cookies: sessionCookies(session) };
    },
  });
}

/** The session's row is locked first, so of refreshes at once exactly one is the first use. */
async function refreshOnce(tx: Transaction, refreshHash: Buffer, now: Date, log: Logger): Promise<Outcome> {
  const used = await tx("sessions").where("refresh_hash", refreshHash).forUpdate().first();
  if (used === undefined || used.refresh_expires_at <= now) return { kind: "unknown" };
  if (used.refreshed_at !== null) {
    await endReusedFamily(tx, used, now, log);
    return { kind: "ended" };
  }
  const family = await tx("session_families")
    .where("family_id", used.family_id)
    .forUpdate()
    .first("ended_at");
  if (family?.ended_at !== null) return { kind: "unknown" };
  await tx("sessions").where("session_id", used.session_id).update({ refreshed_at: now });
  const session = await startSession(tx, { accountId: used.account_id, familyId: used.family_id }, now);
  return { kind: "refreshed", session };
}

async function endReusedFamily(tx: Transaction, used: SessionRow, now: Date, log: Logger): Promise<void> {
  const ended = await tx("session_families")
    .where("family_id", used.family_id)
    .whereNull("ended_at")
    .update({ ended_at: now, end_reason: "refresh_reused" });
  if (ended === 1) {
    log.warn(
      { account_id: used.account_id, family_id: used.family_id },
      "a refresh token came twice: its session ended",
    );
  }
}

import type { Clock } from "../clock.ts";
import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { REFRESH_SECONDS } from "./sessions/sessions.ts";
import { HISTORY_SECONDS } from "./sign_in/sign_in_mails.ts";

const DAY_SECONDS = 24 * 60 * 60;

/**
 * Deletes sign-in emails and counts of calls that no longer affect a rate limit, expired codes, and former
 * addresses that can no longer be put back. Also deletes sessions whose refresh token expired a refresh
 * lifetime ago, and families without sessions. Several replicas may run it concurrently.
 */
export async function sweepAccounts({ db, clock }: { db: Database; clock: Clock }): Promise<void> {
  const now = clock.now();
  await db("sign_in_mails")
    .where("expires_at", "<", addSeconds(now, -HISTORY_SECONDS))
    .orWhere((untried) =>
      untried
        .where("expires_at", "<", addSeconds(now, -DAY_SECONDS))
        .where({ own_tries: 0, shared_tries: 0 }),
    )
    .delete();
  await db("account_codes").where("expires_at", "<", now).delete();
  await db("former_addresses").where("expires_at", "<=", now).delete();
  await db("rate_limits").where("expire", "<", now.getTime()).delete();
  await db("sessions").where("refresh_expires_at", "<", addSeconds(now, -REFRESH_SECONDS)).delete();
  await db("session_families")
    .where("created_at", "<", addSeconds(now, -2 * REFRESH_SECONDS))
    .whereNotExists((sessions) =>
      sessions.from("sessions").whereRaw("sessions.family_id = session_families.family_id"),
    )
    .delete();
}

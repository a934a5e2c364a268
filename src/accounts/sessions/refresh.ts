import { z } from "zod";
import { addSeconds, type Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { SessionRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import type { ChangeRates } from "../../rates/change_rates.ts";
import { createPacedLines, type PacedLines } from "../../rates/paced_lines.ts";
import { type Answer, type Call, type Route, route } from "../../route.ts";
import {
  csrfMatches,
  familyEnd,
  hashToken,
  type IssuedSession,
  type SessionTokens,
  sessionCookies,
  startSession,
  type Tokens,
} from "./sessions.ts";

/** Seconds within which a client may send a used refresh token again. It receives the same answer. */
export const REPEAT_SECONDS = 10;

const answer = z.object({ expires_at: z.iso.datetime().describe("End of the new session") });

type RefreshDeps = {
  db: Database;
  clock: Clock;
  tokens: SessionTokens;
  changeRates: ChangeRates;
  /** Days after which a person must sign in again. */
  signInDays: number;
  log: Logger;
};

/** A token, and the hashes of its client. A process of the former version stores `formerClient`. */
type Presented = { refreshHash: Buffer; next: Tokens; client: Buffer; formerClient: Buffer };

type Settings = Pick<RefreshDeps, "signInDays" | "log"> & { logRepeat: PacedLines };

/**
 * `POST /v1/auth/refresh`: creates the next session of the family, with a new refresh and CSRF token. The
 * previous session ends immediately. No session outlives `signInDays` after the sign-in.
 *
 * The call needs the refresh cookie and the CSRF token of the session to renew, which has usually expired. If
 * the CSRF token does not match, nothing changes, and the refresh token does not count as used.
 *
 * The same token from the same user agent within 10 seconds comes from a second tab, or from a client that
 * lost the answer. It receives exactly the same cookies. Its address may differ, because one device can use
 * several (IPv4 and IPv6, or Wi-Fi and a mobile network).
 *
 * Any other second use means that two parties have the token. Nobody can tell which of them is the thief, so
 * the family ends, and both must sign in again.
 */
export function refreshRoute({ db, clock, tokens, signInDays, log, changeRates }: RefreshDeps): Route {
  const settings = { signInDays, log, logRepeat: createPacedLines("info", { log, clock }) };
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
      const { token, familyId } = await presentedToken(db, call);
      changeRates.take(familyId, "refreshes");
      const userAgent = call.header("user-agent");
      const presented = {
        refreshHash: hashToken(token),
        next: tokens.next(token),
        client: tokens.client(userAgent),
        formerClient: tokens.formerClient(call.ip, userAgent),
      };
      const session = await db.transaction((tx) => refreshOnce(tx, presented, clock.now(), settings));
      if (session === undefined) throw new ApiError("auth_required");
      return { body: { expires_at: session.expiresAt.toISOString() }, cookies: sessionCookies(session) };
    },
  });
}

type Cookies = Pick<Call<"public", unknown, unknown, unknown>, "cookie" | "formerCookie" | "header">;

/**
 * Returns the refresh token that counts, and its family. Throws `auth_required` for an unknown token, and
 * `csrf_failed` if the CSRF token does not match.
 *
 * During an upgrade and after a rollback, an API process of the former version may have refreshed the
 * session. It writes only the cookies' former names. The token under the former name then counts, but only if
 * it continues the same family, because another host of the site can set a former name.
 */
async function presentedToken(db: Database, call: Cookies): Promise<{ token: string; familyId: string }> {
  const find = (token: string) =>
    db("sessions").where("refresh_hash", hashToken(token)).first("csrf_hash", "family_id", "refreshed_at");
  const token = call.cookie("refresh");
  const row = token === undefined ? undefined : await find(token);
  if (token === undefined || row === undefined) throw new ApiError("auth_required");
  const formerToken = row.refreshed_at === null ? undefined : call.formerCookie("refresh");
  const former = formerToken === undefined ? undefined : await find(formerToken);
  const isFormer = former?.family_id === row.family_id && former.refreshed_at === null;
  const header = call.header("x-service-csrf");
  const isAuthorized =
    csrfMatches(call.cookie("csrf"), header, row.csrf_hash) ||
    (isFormer && csrfMatches(call.formerCookie("csrf"), header, former.csrf_hash));
  if (!isAuthorized) throw new ApiError("csrf_failed");
  return { token: isFormer && formerToken !== undefined ? formerToken : token, familyId: row.family_id };
}

/** Locks the session's row first, so only one of several concurrent refreshes counts as the first use. */
async function refreshOnce(
  tx: Transaction,
  presented: Presented,
  now: Date,
  { signInDays, log, logRepeat }: Settings,
): Promise<IssuedSession | undefined> {
  const used = await tx("sessions").where("refresh_hash", presented.refreshHash).forUpdate().first();
  if (used === undefined || used.refresh_expires_at <= now) return undefined;
  const family = await tx("session_families")
    .where("family_id", used.family_id)
    .forUpdate()
    .first("ended_at", "created_at");
  if (family?.ended_at !== null) return undefined;
  const endsAt = familyEnd(family.created_at, signInDays);
  if (now >= endsAt) return undefined;
  if (used.refreshed_at === null) {
    await tx("sessions")
      .where("session_id", used.session_id)
      .update({ refreshed_at: now, refreshed_by: presented.client });
    const holder = { accountId: used.account_id, familyId: used.family_id, endsAt };
    return startSession(tx, holder, presented.next, now);
  }
  const repeated = await repeatedAnswer(tx, used, presented, now);
  if (repeated === undefined) {
    await endReusedFamily(tx, used, now, log);
  } else {
    logRepeat(used.account_id, familyOf(used), "a refresh token was sent again and received the same answer");
  }
  return repeated;
}

/**
 * Returns `undefined` if the request does not repeat the token's first use, or if the session from that use
 * was refreshed since then.
 */
async function repeatedAnswer(
  tx: Transaction,
  { refreshed_at, refreshed_by }: SessionRow,
  { next, client, formerClient }: Presented,
  now: Date,
): Promise<IssuedSession | undefined> {
  const isSameClient =
    refreshed_by !== null && [client, formerClient].some((each) => each.equals(refreshed_by));
  const isSoon = refreshed_at !== null && now < addSeconds(refreshed_at, REPEAT_SECONDS);
  if (!isSameClient || !isSoon) return undefined;
  const issued = await tx("sessions")
    .where("refresh_hash", hashToken(next.refreshToken))
    .whereNull("refreshed_at")
    .first("expires_at");
  return issued === undefined ? undefined : { ...next, expiresAt: issued.expires_at };
}

async function endReusedFamily(tx: Transaction, used: SessionRow, now: Date, log: Logger): Promise<void> {
  await tx("session_families")
    .where("family_id", used.family_id)
    .update({ ended_at: now, end_reason: "refresh_reused" });
  log.warn(familyOf(used), "a refresh token was used twice: its session ended");
}

/** Returns log fields that identify a session: no token, and nothing from which a token could be guessed. */
function familyOf({ account_id, family_id }: SessionRow): { account_id: string; family_id: string } {
  return { account_id, family_id };
}

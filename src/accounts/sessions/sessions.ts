import { createHmac, hash, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { addSeconds, type Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { isUuid, newId } from "../../ids.ts";
import { networkOf } from "../../rates/client_rates.ts";
import type { CookieChange, MemberRole, SessionCaller } from "../../route.ts";

/**
 * Checks a double-submit CSRF token: the header must equal the cookie, and both must be the token of this
 * session (`csrfHash` is the SHA-256 of that token). Takes the same time for every input.
 */
export function csrfMatches(
  cookie: string | undefined,
  header: string | undefined,
  csrfHash: Uint8Array,
): boolean {
  const [fromCookie, fromHeader] = [digest(cookie ?? ""), digest(header ?? "")];
  const repeated = timingSafeEqual(fromCookie, fromHeader);
  return timingSafeEqual(fromHeader, csrfHash) && repeated;
}

function digest(text: string): Buffer {
  return hash("sha256", text, "buffer");
}

/** The three secrets of a session. The database stores only their SHA-256 hashes. */
export type Tokens = { sessionToken: string; refreshToken: string; csrfToken: string };

/** Creates session tokens. */
export type SessionTokens = {
  /** Returns random tokens for a sign-in. */
  first(): Tokens;
  /**
   * Returns the tokens that replace a refresh token: always the same, so two answers to one refresh token
   * agree. Nobody can derive them without the service's key.
   */
  next(refreshToken: string): Tokens;
  /** Returns a keyed hash of a client's user agent. */
  client(userAgent: string | undefined): Buffer;
  /** Returns the hash that the former version stored: of a client's network and user agent. */
  formerClient(ip: string, userAgent: string | undefined): Buffer;
};

/** Creates tokens with a key derived from the 32-byte sealing key, so all replicas create the same tokens. */
export function createSessionTokens(sealingKey: Uint8Array): SessionTokens {
  const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize session tokens v1", 32));
  const mac = (...parts: string[]) => createHmac("sha256", key).update(JSON.stringify(parts)).digest();
  const random = () => randomBytes(32).toString("base64url");
  return {
    first: () => ({ sessionToken: random(), refreshToken: random(), csrfToken: random() }),
    next(refreshToken) {
      const derived = (kind: string) => mac(kind, refreshToken).toString("base64url");
      return {
        sessionToken: derived("session"),
        refreshToken: derived("refresh"),
        csrfToken: derived("csrf"),
      };
    },
    client: (userAgent) => mac("client", userAgent ?? ""),
    formerClient: (ip, userAgent) => mac("client", networkOf(ip), userAgent ?? ""),
  };
}

/** Seconds for which a session is valid (specification §5). At exactly this age, it has expired. */
const SESSION_SECONDS = 15 * 60;
/** Seconds for which a refresh token is valid at most, from the sign-in or refresh that created it. */
export const REFRESH_SECONDS = 30 * 24 * 60 * 60;

const DAY_SECONDS = 24 * 60 * 60;

/** Stored part of a user agent, in characters. */
const LONGEST_USER_AGENT = 256;

/** Returns when the sessions of a sign-in end, however often they are refreshed (ASVS 7.3). */
export function familyEnd(signedInAt: Date, signInDays: number): Date {
  return addSeconds(signedInAt, signInDays * DAY_SECONDS);
}

/** A new session's tokens and expiry, as sent to the browser. */
export type IssuedSession = Tokens & { expiresAt: Date };

/**
 * A person's live session, with their role in their own account. `other` is the account `actFor`, or `null`
 * if the person is not a member of it. `csrfHash` is the SHA-256 of the session's CSRF token.
 */
export type LiveSession = Pick<SessionCaller, "sessionId" | "familyId" | "onboardingStep"> & {
  own: { accountId: string; email: string; organization: boolean; role: MemberRole | null };
  other: { accountId: string; role: MemberRole } | null;
  csrfHash: Buffer;
};

/** Returns the SHA-256 hash of a token. Tokens are stored only as this hash. */
export function hashToken(token: string): Buffer {
  return hash("sha256", token, "buffer");
}

/**
 * Starts a person's session family at sign-in. Sessions from later refreshes belong to it and end with it,
 * and `signInDays` after the sign-in at the latest.
 */
export async function startFamily(
  tx: Transaction,
  {
    accountId,
    signInDays,
    userAgent,
  }: { accountId: string; signInDays: number; userAgent: string | undefined },
  tokens: Tokens,
  now: Date,
): Promise<IssuedSession> {
  const familyId = newId();
  await tx("session_families").insert({
    family_id: familyId,
    account_id: accountId,
    created_at: now,
    user_agent: userAgent?.slice(0, LONGEST_USER_AGENT) ?? null,
  });
  return startSession(tx, { accountId, familyId, endsAt: familyEnd(now, signInDays) }, tokens, now);
}

/** A session family: its person, its id, and when it ends. */
export type Family = { accountId: string; familyId: string; endsAt: Date };

/** Creates the next session of a family. Neither the session nor its refresh token outlives the family. */
export async function startSession(
  tx: Transaction,
  { accountId, familyId, endsAt }: Family,
  tokens: Tokens,
  now: Date,
): Promise<IssuedSession> {
  const within = (seconds: number) =>
    new Date(Math.min(addSeconds(now, seconds).getTime(), endsAt.getTime()));
  const expiresAt = within(SESSION_SECONDS);
  await tx("sessions").insert({
    session_id: newId(),
    family_id: familyId,
    account_id: accountId,
    token_hash: hashToken(tokens.sessionToken),
    refresh_hash: hashToken(tokens.refreshToken),
    csrf_hash: hashToken(tokens.csrfToken),
    created_at: now,
    expires_at: expiresAt,
    refresh_expires_at: within(REFRESH_SECONDS),
  });
  return { ...tokens, expiresAt };
}

/**
 * Returns a function that finds a token's live session: not expired, not refreshed, its family not ended. One
 * query reads the session, the onboarding step and the membership in `actFor`, so all are current.
 */
export function createFindSession({ db, clock }: { db: Database; clock: Clock }) {
  return async (token: string, actFor?: string): Promise<LiveSession | undefined> => {
    const organizationId = actFor !== undefined && isUuid(actFor) ? actFor : null;
    const row = await db("sessions as s")
      .join("session_families as f", "f.family_id", "s.family_id")
      .join("accounts as a", "a.account_id", "s.account_id")
      .leftJoin("organization_members as m", (on) =>
        on.on("m.account_id", "s.account_id").andOnVal("m.organization_id", organizationId),
      )
      .where("s.token_hash", hashToken(token))
      .where("s.expires_at", ">", clock.now())
      .whereNull("s.refreshed_at")
      .whereNull("f.ended_at")
      .first(
        "s.session_id",
        "s.family_id",
        "s.account_id",
        "s.csrf_hash",
        "a.onboarding_step",
        "a.email",
        "a.account_type",
        "a.own_role",
        "m.organization_id",
        "m.role",
      );
    if (row === undefined) return undefined;
    return {
      own: {
        accountId: row.account_id,
        email: row.email,
        organization: row.account_type === "organization",
        role: row.own_role,
      },
      other: row.organization_id === null ? null : { accountId: row.organization_id, role: row.role },
      sessionId: row.session_id,
      familyId: row.family_id,
      onboardingStep: row.onboarding_step,
      csrfHash: row.csrf_hash,
    };
  };
}

/**
 * Returns the cookies of a session. The CSRF cookie lives as long as the refresh token, because a refresh
 * needs both.
 */
export function sessionCookies(session: IssuedSession): CookieChange[] {
  return [
    { name: "session", value: session.sessionToken, maxAgeSeconds: SESSION_SECONDS },
    { name: "refresh", value: session.refreshToken, maxAgeSeconds: REFRESH_SECONDS },
    { name: "csrf", value: session.csrfToken, maxAgeSeconds: REFRESH_SECONDS },
  ];
}

/**
 * Locks all sign-ins of a person, in the order in which each refresh locks its own: before the account. So a
 * change that then locks the account cannot deadlock with a refresh.
 */
export async function lockFamilies(tx: Transaction, accountId: string): Promise<void> {
  await tx("session_families")
    .where({ account_id: accountId })
    .orderBy("family_id")
    .forUpdate()
    .select("family_id");
}

/** Cookie changes that remove a session from the browser. */
export const clearedCookies: CookieChange[] = (["session", "refresh", "csrf"] as const).map((name) => ({
  name,
  value: "",
  maxAgeSeconds: 0,
}));

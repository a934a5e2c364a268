import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { AccountRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { newId } from "../../ids.ts";
import type { Logger } from "../../log.ts";
import type { ClientRates } from "../../rates/client_rates.ts";
import { type Route, route } from "../../route.ts";
import { emailAddress } from "../email.ts";
import { isReserved } from "../former_addresses.ts";
import { onboardingStep } from "../sessions/session_routes.ts";
import { type SessionTokens, sessionCookies, startFamily } from "../sessions/sessions.ts";
import { findLink, type PresentedCode, type RightCode, spendCode, tryDigits } from "./code_tries.ts";
import { CODE_FORM, type CodeHashes, plainCode } from "./codes.ts";
import { knownCookie } from "./sign_in_mails.ts";
import { type FailureNotice, mailFailureNotice } from "./sign_in_texts.ts";

/** Length of a typed code with everything that may be between its characters. */
const MAX_TYPED = 128;

const body = z.object({
  email: emailAddress,
  code: z
    .string()
    .max(MAX_TYPED)
    .refine((typed) => CODE_FORM.test(plainCode(typed)), "must be 6 digits, or the 32 characters of a link")
    .transform(plainCode)
    .describe(
      "Six digits, or the long code of a sign-in link; spaces, dashes and dots between them are ignored",
    ),
});
const answer = z.object({ account_id: z.uuid(), email: z.string(), onboarding_step: onboardingStep });

type VerifyCodeDeps = FailureNotice & {
  db: Database;
  clock: Clock;
  rates: ClientRates;
  hashes: CodeHashes;
  tokens: SessionTokens;
  /** Days after which a person must sign in again. */
  signInDays: number;
  log: Logger;
};

/**
 * `POST /v1/auth/email/verify-code`: signs in. The first sign-in also opens the account. One transaction
 * spends the code, opens the account and creates the session.
 */
export function verifyCodeRoute(deps: VerifyCodeDeps): Route {
  const { db, clock, rates, hashes, tokens, signInDays } = deps;
  return route({
    id: "verify_code",
    method: "POST",
    path: "/v1/auth/email/verify-code",
    summary: "Sign in with a code",
    access: "public",
    body,
    answer: {
      status: 200,
      schema: answer,
      description: "Signed in; session, refresh and CSRF cookies are set",
      headers: { "Set-Cookie": "The session, refresh and CSRF cookies" },
    },
    errors: ["invalid_code", "address_taken", "rate_limited"],
    async handle({ body: { email, code }, ip, cookie, header }) {
      const now = clock.now();
      const signInCookie = knownCookie(cookie("sign_in"));
      const presented = {
        addressHash: hashes.address(email),
        codeHash: hashes.code(email, code),
        clientHash: signInCookie === undefined ? null : hashes.client(signInCookie),
      };
      const right = await findRight(deps, presented, { hasDigits: code.length === 6, ip }, now);
      if (right === undefined) {
        await mailFailureNotice(deps, email, now);
        throw new ApiError("invalid_code");
      }
      const { account, session } = await db.transaction(async (tx) => {
        if (!(await spendCode(tx, right, now))) throw new ApiError("invalid_code");
        const account = await openAccount(tx, email, now);
        const holder = { accountId: account.account_id, signInDays, userAgent: header("user-agent") };
        return { account, session: await startFamily(tx, holder, tokens.first(), now) };
      });
      if (right.tried !== "own_tries") await rates.giveBackTry(ip);
      return { body: { ...account, email }, cookies: sessionCookies(session) };
    },
  });
}

/**
 * A try of the browser's own code counts only against that code's limit, so nobody in the same network can
 * prevent the browser from signing in. Every other try counts against the network's limit first.
 */
async function findRight(
  { db, rates }: Pick<VerifyCodeDeps, "db" | "rates">,
  presented: PresentedCode,
  { hasDigits, ip }: { hasDigits: boolean; ip: string },
  now: Date,
): Promise<RightCode | undefined> {
  const own = hasDigits ? await tryDigits(db, presented, "own", now) : undefined;
  if (own !== undefined) return own === "wrong" ? undefined : own;
  await rates.takeTry(ip);
  if (!hasDigits) return findLink(db, presented, now);
  const shared = await tryDigits(db, presented, "shared", now);
  return shared === "wrong" ? undefined : shared;
}

type OpenAccount = Pick<AccountRow, "account_id" | "onboarding_step">;

const MOVED =
  "The account of this address now has another address. A mail about the change has a link that puts this address back";

/**
 * Opens an account if the address has none. Two concurrent first sign-ins get the same account. Throws
 * `address_taken` while the former account of the address may still get the address back.
 */
async function openAccount(tx: Transaction, email: string, now: Date): Promise<OpenAccount> {
  const opened = await tx("accounts")
    .insert({ account_id: newId(), email, onboarding_step: "profile", created_at: now })
    .onConflict("email")
    .ignore()
    .returning("account_id");
  // This check must follow the insert, which waits for a concurrent change of the address.
  if (opened.length > 0 && (await isReserved(tx, email, now))) throw new ApiError("address_taken", MOVED);
  const account = await tx("accounts").where({ email }).forKeyShare().first("account_id", "onboarding_step");
  if (account === undefined) throw new ApiError("address_taken", MOVED);
  return account;
}

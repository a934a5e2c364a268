import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/connection.ts";
import type { AccountRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { newId } from "../ids.ts";
import { type Route, route } from "../route.ts";
import { type CodeHashes, spendCode, tryCode } from "./codes.ts";
import { emailAddress } from "./email.ts";
import { onboardingStep } from "./onboarding_steps.ts";
import { sessionCookies, startFamily } from "./sessions.ts";

const body = z.object({ email: emailAddress, code: z.string().regex(/^\d{6}$/, "6 digits") });
const answer = z.object({ account_id: z.uuid(), email: z.string(), onboarding_step: onboardingStep });

/**
 * `POST /v1/auth/email/verify-code`: signs in; the first time, it opens the account. The code is spent, the account
 * there and the session made in one transaction.
 */
export function verifyCodeRoute({
  db,
  clock,
  hashes,
}: {
  db: Database;
  clock: Clock;
  hashes: CodeHashes;
}): Route {
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
    errors: ["invalid_code"],
    async handle({ body: { email, code } }) {
      const now = clock.now();
      const presented = { addressHash: hashes.address(email), codeHash: hashes.code(email, code) };
      if (!(await tryCode(db, presented, now))) throw new ApiError("invalid_code");
      return db.transaction(async (tx) => {
        if (!(await spendCode(tx, presented))) throw new ApiError("invalid_code");
        const account = await openAccount(tx, email, now);
        const session = await startFamily(tx, account.account_id, now);
        return { body: { ...account, email }, cookies: sessionCookies(session) };
      });
    },
  });
}

type OpenAccount = Pick<AccountRow, "account_id" | "onboarding_step">;

/** The address's account, opened when there is none. Two first sign-ins at once find the same one. */
async function openAccount(tx: Transaction, email: string, now: Date): Promise<OpenAccount> {
  await tx("accounts")
    .insert({ account_id: newId(), email, onboarding_step: "profile", created_at: now })
    .onConflict("email")
    .ignore();
  const account = await tx("accounts").where({ email }).first("account_id", "onboarding_step");
  if (account === undefined) throw new Error("An account that was just there is gone");
  return account;
}

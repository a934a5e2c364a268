import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { Logger } from "../log.ts";
import type { ClientRates } from "../rates/client_rates.ts";
import type { Route } from "../route.ts";
import type { VaultClient } from "../vault/client.ts";
import { accountTypeRoute } from "./account_type.ts";
import { creditsRoute } from "./ledger/credits_route.ts";
import type { Mailer } from "./mail/mailer.ts";
import { profileRoute } from "./profile.ts";
import { registryRoute } from "./registry_route.ts";
import { logoutRoute } from "./sessions/logout.ts";
import { refreshRoute } from "./sessions/refresh.ts";
import { sessionRoute } from "./sessions/session_route.ts";
import type { SessionTokens } from "./sessions/session_tokens.ts";
import type { CodeBounds } from "./sign_in/code_bounds.ts";
import type { CodeHashes } from "./sign_in/codes.ts";
import { sendCodeRoute } from "./sign_in/send_code.ts";
import { verifyCodeRoute } from "./sign_in/verify_code.ts";

/** What accounts are made with. */
export type AccountsDeps = {
  db: Database;
  clock: Clock;
  vault: Pick<VaultClient, "createKey">;
  mailer: Pick<Mailer, "send">;
  hashes: CodeHashes;
  tokens: SessionTokens;
  rates: ClientRates;
  bounds: CodeBounds;
  /** The page that links in sign-in mails lead to. */
  signInUrl: string | undefined;
  /** Alpha credits of a new account, in micro-USD. */
  alphaCredits: number;
  /** What root keys made from now on are bounded to; undefined sets no bound. */
  accountCeiling: string[] | undefined;
  log: Logger;
};

/** Operations on accounts: sign-in, onboarding, sessions (specification §4, Account). */
export function accountsRoutes(deps: AccountsDeps): Route[] {
  return [
    sendCodeRoute(deps),
    verifyCodeRoute(deps),
    profileRoute(deps),
    accountTypeRoute(deps),
    refreshRoute(deps),
    sessionRoute(deps),
    logoutRoute(deps),
    creditsRoute(deps),
    registryRoute(deps),
  ];
}

import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { Logger } from "../log.ts";
import type { ChangeRates } from "../rates/change_rates.ts";
import type { ClientRates } from "../rates/client_rates.ts";
import type { Route } from "../route.ts";
import type { VaultClient } from "../vault/client.ts";
import { type AddressDeps, addressRoutes } from "./address/change_address.ts";
import { creditsRoute } from "./ledger/credits_route.ts";
import type { Mailer } from "./mail/smtp.ts";
import { mailRoutes } from "./mailings/routes.ts";
import type { StopTokens } from "./mailings/stop_links.ts";
import { accountTypeRoute, changeProfileRoute, profileRoute } from "./onboarding.ts";
import { registryRoute } from "./registry_route.ts";
import { ownSessionRoutes } from "./sessions/own_sessions.ts";
import { refreshRoute } from "./sessions/refresh.ts";
import { logoutRoute, sessionRoute } from "./sessions/session_routes.ts";
import type { SessionTokens } from "./sessions/sessions.ts";
import type { CodeBounds, CodeHashes } from "./sign_in/codes.ts";
import { sendCodeRoute } from "./sign_in/send_code.ts";
import { verifyCodeRoute } from "./sign_in/verify_code.ts";

/** Dependencies and settings of the account operations. */
export type AccountsDeps = AddressDeps & {
  db: Database;
  clock: Clock;
  vault: Pick<VaultClient, "createKey">;
  mailer: Pick<Mailer, "send">;
  hashes: CodeHashes;
  tokens: SessionTokens;
  stopTokens: StopTokens;
  /** Days after which a person must sign in again. */
  signInDays: number;
  rates: ClientRates;
  changeRates: ChangeRates;
  bounds: CodeBounds;
  /** URL of the page that links in sign-in emails open. */
  signInUrl: string;
  /** Alpha credits of a new account, in micro-USD. */
  alphaCredits: number;
  /** The scope ceiling of new root keys. `undefined` means no ceiling. */
  accountCeiling: string[] | undefined;
  log: Logger;
};

/** Returns the operations on accounts: sign-in, onboarding, sessions (specification §4, Account). */
export function accountsRoutes(deps: AccountsDeps): Route[] {
  return [
    sendCodeRoute(deps),
    verifyCodeRoute(deps),
    profileRoute(deps),
    accountTypeRoute(deps),
    changeProfileRoute(deps),
    ...addressRoutes(deps),
    refreshRoute(deps),
    sessionRoute(deps),
    logoutRoute(deps),
    ...ownSessionRoutes(deps),
    creditsRoute(deps),
    registryRoute(deps),
    ...mailRoutes(deps),
  ];
}

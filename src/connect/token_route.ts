import { hash, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { ConnectCodeRow, Consent } from "../db/key_tables.ts";
import { newId } from "../ids.ts";
import { rootOf } from "../input/url.ts";
import { writeAct } from "../organizations/activity.ts";
import type { ApiKeyFinder } from "../platforms/api_keys/api_key_finder.ts";
import { tellOtherParty } from "../platforms/connections/connection_acts.ts";
import {
  type CustomerConnection,
  createCustomerConnection,
  endApprovals,
} from "../platforms/connections/customer_connections.ts";
import { type Route, route } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";
import { fewer } from "./approvals.ts";
import { type CheckedConnect, checkMayConnect, hashCode } from "./approve_connect.ts";
import type { AuthenticateClient } from "./client_authentication.ts";
import { hashChallenge } from "./connect_request.ts";
import { asInvalidGrant, inOAuth, OAuthRefusal, oauthAnswers, readForm } from "./oauth_refusal.ts";

/** Dependencies of exchanging a code. */
export type TokenDeps = {
  db: Database;
  secretBox: SecretBox;
  clock: Clock;
  apiKeys: Pick<ApiKeyFinder, "forget">;
  baseUrl: string;
};

const tokenAnswer = z.object({
  access_token: z.string().describe("API key"),
  token_type: z.string(),
  scope: z.string(),
  connection_id: z.string(),
  platform_id: z.string(),
  org_id: z.string(),
  org_name: z.string(),
  manage_url: z.string(),
});

type TokenAnswer = z.infer<typeof tokenAnswer>;

/** `POST /v1/service/oauth/token`: exchanges a customer's code for a connection with its API key. */
export function tokenRoute(deps: TokenDeps, authenticateClient: AuthenticateClient): Route {
  return route({
    id: "oauth_token",
    method: "POST",
    path: "/v1/service/oauth/token",
    summary: "Exchange a customer's code for an API key",
    access: "public",
    bodyForm: "form",
    answer: { status: 200, schema: tokenAnswer, description: "The connection with its key" },
    otherAnswers: oauthAnswers,
    errors: [],
    handle: (call) =>
      inOAuth(async () => {
        const form = readForm(call);
        const platformId = await authenticateClient(call, form);
        if (form.grant_type === undefined) throw new OAuthRefusal("invalid_request", "grant_type is missing");
        if (form.grant_type !== "authorization_code") throw new OAuthRefusal("unsupported_grant_type");
        const { code, redirect_uri: redirectUri, code_verifier: verifier } = form;
        if (code === undefined || redirectUri === undefined || verifier === undefined) {
          throw new OAuthRefusal("invalid_request", "code, redirect_uri and code_verifier are required");
        }
        const body = await exchangeCode(deps, { platformId, code, redirectUri, verifier });
        return { body, headers: { "cache-control": "no-store", pragma: "no-cache" } };
      }),
  });
}

type Exchange = { platformId: string; code: string; redirectUri: string; verifier: string };

/**
 * Spends a code and creates the customer's connection, or connects it again, in one transaction. Checks
 * everything again that was true when the person decided. A refused exchange leaves the code as it was, so
 * that nobody but the client that knows the verifier can spend it. Throws `invalid_grant` as an
 * `OAuthRefusal`.
 */
async function exchangeCode(deps: TokenDeps, exchange: Exchange): Promise<TokenAnswer> {
  const { db, secretBox, clock } = deps;
  const { spent, connection, orgName } = await db
    .transaction(async (tx) => {
      const now = clock.now();
      const spent = await spend(tx, exchange, now);
      const connection = await createCustomerConnection(tx, secretBox, {
        platformId: spent.platform_id,
        customerAccountId: spent.customer_account_id,
        customerName: spent.customer_name,
        allowedScopes: spent.scopes,
        connectedBy: spent.person_id,
        now,
      });
      const checked = await checkMayConnect(tx, spent, now);
      if (connection.isNarrower) {
        if (checked.approval !== undefined) throw fewer();
        const { customer_account_id: accountId, platform_id: platformId } = spent;
        await endApprovals(tx, { accountId, platformId });
      }
      const orgName = await nameCustomer(tx, spent, connection, checked);
      await recordConsent(tx, spent, connection, { ...checked, now });
      await noteConnected(tx, spent, connection, { ...checked, now });
      return { spent, connection, orgName };
    })
    .catch((error: unknown) => Promise.reject(asInvalidGrant(error)));
  deps.apiKeys.forget(connection.retired);
  return {
    access_token: connection.apiKey,
    token_type: "Bearer",
    scope: connection.allowedScopes.join(" "),
    connection_id: connection.connectionId,
    platform_id: spent.platform_id,
    org_id: spent.customer_account_id,
    org_name: orgName,
    manage_url: `${rootOf(deps.baseUrl)}/console/products/${connection.connectionId}`,
  };
}

/** Deletes the code's row, so that simultaneous exchanges wait for each other, and only one finds the row. */
async function spend(
  tx: Transaction,
  { platformId, code, redirectUri, verifier }: Exchange,
  now: Date,
): Promise<ConnectCodeRow> {
  const [row] = await tx("connect_codes")
    .where({ code_hash: hashCode(code), platform_id: platformId, redirect_uri: redirectUri })
    .andWhere("expires_at", ">", now)
    .delete()
    .returning("*");
  if (row === undefined || !provesChallenge(verifier, row.code_challenge)) {
    throw new OAuthRefusal("invalid_grant");
  }
  return row;
}

/** Checks a verifier of 43 to 128 characters (RFC 7636 §4.1) against the hash of its S256 challenge. */
function provesChallenge(verifier: string, challenge: string): boolean {
  if (!/^[\w.~-]{43,128}$/.test(verifier)) return false;
  const proven = hashChallenge(hash("sha256", verifier, "base64url"));
  return proven.length === challenge.length && timingSafeEqual(Buffer.from(proven), Buffer.from(challenge));
}

/**
 * Returns the name that the publisher sees from now on. A member with an approval names a new connection, but
 * renames none.
 */
async function nameCustomer(
  tx: Transaction,
  { customer_name }: ConnectCodeRow,
  { connectionId: connection_id, customerName }: CustomerConnection,
  { approval }: CheckedConnect,
): Promise<string> {
  if (approval !== undefined) return customerName;
  await tx("connections").where({ connection_id }).update({ customer_name });
  return customer_name;
}

/** Adds to the activity of both parties that the customer connected. Only the customer sees who did. */
async function noteConnected(
  tx: Transaction,
  { platform_id: product_id, customer_account_id, person_id }: ConnectCodeRow,
  { connectionId: connection_id }: CustomerConnection,
  { role, publisherId: account_id, now }: CheckedConnect & { now: Date },
): Promise<void> {
  const operation = "oauth_token";
  const connection = { connection_id, account_id, product_id, customer_account_id };
  await tellOtherParty(tx, connection, { by: "customer", operation, now });
  const person = await tx("accounts").where({ account_id: person_id }).first("email");
  const act = {
    accountId: customer_account_id,
    person: { accountId: person_id, email: person?.email ?? "", role },
    operation,
    target: { connection_id },
  };
  await writeAct(tx, act, { status: "done", now });
}

async function recordConsent(
  tx: Transaction,
  { person_id, scopes, consent }: ConnectCodeRow,
  { connectionId }: CustomerConnection,
  { isTest, approval, now }: CheckedConnect & { now: Date },
): Promise<void> {
  await tx("connect_consents").insert({
    consent_id: newId(),
    connection_id: connectionId,
    person_id,
    scopes,
    consent: JSON.stringify(consent) as unknown as Consent,
    is_test: isTest,
    consented_at: now,
    approved_by: approval?.approved_by ?? null,
    approved_at: approval?.approved_at ?? null,
    approved_consent: approval ? (JSON.stringify(approval.consent) as unknown as Consent) : null,
  });
}

import { hash, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { PlatformRow } from "../db/tables.ts";
import { isUuid, newId } from "../ids.ts";
import { checkCeiling, checkScopes } from "../input/ceiling.ts";
import { oneLine } from "../input/schemas.ts";
import { redirectUriFault } from "../platforms/redirect_uris.ts";
import type { SecretBox } from "../secret_box.ts";
import { OAuthRefusal } from "./oauth_refusal.ts";

const MAX_STATE = 1_024;
const MAX_SCOPE = 2_048;
type Parameter =
  | "response_type"
  | "response_mode"
  | "client_id"
  | "redirect_uri"
  | "scope"
  | "state"
  | "code_challenge"
  | "code_challenge_method"
  | "request"
  | "request_uri"
  | "account_label";

/**
 * The parameters of an authorization request by their names (RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 9126 §4).
 * Without `scope`, the request is for the whole ceiling.
 */
export type AuthorizationParameters = { readonly [name in Parameter]?: string | undefined };

const accountLabel = oneLine(120);

const connectRequest = z.object({
  id: z.string(),
  platformId: z.string(),
  redirectUri: z.string(),
  /** The requested scopes. `null` means the platform's whole ceiling. */
  scopes: z.array(z.string()).nullable(),
  state: z.string().nullable(),
  /** The hash of the code challenge. A pushed challenge is secret: see {@link hashChallenge}. */
  challenge: z.string(),
  /** The product's name for its own account, from a pushed request. */
  accountLabel: z.string().nullable(),
  until: z.number(),
});

/** A checked request of a product to connect a customer. */
export type ConnectRequest = z.infer<typeof connectRequest>;

/** A published platform or a draft, as a client of OAuth. */
export type Product = Pick<
  PlatformRow,
  | "platform_id"
  | "account_id"
  | "name"
  | "default_allowed_scopes"
  | "scope_descriptions"
  | "publish_state"
  | "published_domain"
  | "redirect_uris"
>;

/** Returns the live platform with this id, or `undefined`. */
export async function findProduct(
  db: Database | Transaction,
  platformId: string | undefined,
): Promise<Product | undefined> {
  if (platformId === undefined || !isUuid(platformId)) return undefined;
  return db("platforms")
    .where({ platform_id: platformId })
    .whereNull("removed_at")
    .first(
      "platform_id",
      "account_id",
      "name",
      "default_allowed_scopes",
      "scope_descriptions",
      "publish_state",
      "published_domain",
      "redirect_uris",
    );
}

/**
 * Returns whether a browser may be sent to `uri` for a product: character by character one of its redirect
 * URIs, and still allowed in its present state. False while it is suspended, because its domain may belong to
 * somebody else.
 */
export function isRedirectUri(product: Product, uri: string | undefined): uri is string {
  if (uri === undefined || !product.redirect_uris.includes(uri)) return false;
  if (product.publish_state !== "draft" && product.publish_state !== "published") return false;
  return redirectUriFault(uri, product.published_domain) === undefined;
}

/**
 * Checks an authorization request whose client and redirect URI are known. Throws an `OAuthRefusal` with the
 * error code that the client gets.
 */
export function readAuthorization(
  product: Product,
  redirectUri: string,
  asked: AuthorizationParameters,
): Omit<ConnectRequest, "id" | "until"> {
  if (asked.request !== undefined) throw new OAuthRefusal("request_not_supported");
  if (asked.response_type !== "code") {
    throw new OAuthRefusal("unsupported_response_type", "response_type must be code");
  }
  if (asked.response_mode !== undefined && asked.response_mode !== "query") {
    throw new OAuthRefusal("invalid_request", "response_mode must be query");
  }
  if (asked.code_challenge_method !== "S256" || !/^[\w-]{43}$/.test(asked.code_challenge ?? "")) {
    throw new OAuthRefusal("invalid_request", "code_challenge with the method S256 is required");
  }
  if (asked.state !== undefined && !isState(asked.state)) {
    throw new OAuthRefusal(
      "invalid_request",
      `state must be printable ASCII, at most ${MAX_STATE} characters`,
    );
  }
  const label = asked.account_label === undefined ? undefined : accountLabel.safeParse(asked.account_label);
  if (label?.success === false) {
    throw new OAuthRefusal("invalid_request", "account_label must be one line of 1 to 120 characters");
  }
  return {
    platformId: product.platform_id,
    redirectUri,
    scopes: readScopes(product, asked.scope),
    state: asked.state ?? null,
    challenge: hashChallenge(asked.code_challenge ?? ""),
    accountLabel: label?.data ?? null,
  };
}

/**
 * Returns the only form in which requests and codes have a code challenge. Addresses show requests.
 * With the challenge itself, a stranger could make a pushed request again without its account label.
 */
export function hashChallenge(challenge: string): string {
  return hash("sha256", challenge, "base64url");
}

/** Returns whether a state can be sent back: printable ASCII (RFC 6749, appendix A.5) of limited length. */
export function isState(state: string): boolean {
  return state.length <= MAX_STATE && /^[\x20-\x7e]*$/.test(state);
}

function readScopes({ default_allowed_scopes }: Product, scope: string | undefined): string[] | null {
  if (scope === undefined || scope === "") return null;
  if (scope.length > MAX_SCOPE) throw new OAuthRefusal("invalid_scope", "scope is too long");
  try {
    const scopes = checkScopes(scope.split(" "));
    checkCeiling(default_allowed_scopes, scopes);
    return scopes;
  } catch {
    throw new OAuthRefusal("invalid_scope", "A scope is unknown, or beyond the platform's ceiling");
  }
}

/** The purposes of a signed request: to show it on the page, or to send its reference through the browser. */
type Purpose = "connect_request" | "pushed_request";

const LIFETIME_SECONDS: Record<Purpose, number> = { connect_request: 3_600, pushed_request: 300 };

/** Number of seconds for which the reference of a pushed request is valid. */
export const PUSHED_SECONDS = LIFETIME_SECONDS.pushed_request;

/** The most characters of a signed request. The console keeps its address while a person signs in. */
export const MAX_SIGNED = 5_900;

type SigningDeps = { secretBox: SecretBox; clock: Clock };

/**
 * Returns a request as signed text, valid for an hour, or for five minutes if it was pushed. The service
 * stores nothing until a person decides, so that no number of requests by strangers fills a table or uses up
 * a limit of others. The text is signed, not encrypted: it has nothing that the browser may not know. Throws
 * `invalid_request` as an `OAuthRefusal` if the text is longer than {@link MAX_SIGNED}.
 */
export function signRequest(
  { secretBox, clock }: SigningDeps,
  request: Omit<ConnectRequest, "id" | "until">,
  purpose: Purpose,
): string {
  const until = addSeconds(clock.now(), LIFETIME_SECONDS[purpose]).getTime();
  const whole: ConnectRequest = { ...request, id: newId(), until };
  const body = Buffer.from(JSON.stringify(whole)).toString("base64url");
  const signed = `${body}.${secretBox.mac(body, purpose)}`;
  if (signed.length > MAX_SIGNED) {
    throw new OAuthRefusal("invalid_request", "state, scope and account_label are too long together");
  }
  return signed;
}

/** Returns a signed request, or `undefined` if it is malformed, was not signed for this purpose, or ended. */
export function openRequest(
  { secretBox, clock }: SigningDeps,
  signed: string,
  purpose: Purpose,
): ConnectRequest | undefined {
  const [body = "", mac = "", ...rest] = signed.split(".");
  const expected = Buffer.from(secretBox.mac(body, purpose));
  const presented = Buffer.from(mac);
  if (rest.length > 0 || presented.length !== expected.length) return undefined;
  if (!timingSafeEqual(presented, expected)) return undefined;
  const request = connectRequest.parse(JSON.parse(Buffer.from(body, "base64url").toString()));
  return clock.now().getTime() < request.until ? request : undefined;
}

/**
 * Returns the address that sends a browser back to the product. `iss` names the service, so that a product
 * with several services cannot confuse their answers (RFC 9207). Never re-encodes the redirect URI.
 */
export function redirectAddress(
  baseUrl: string,
  { redirectUri, state }: { redirectUri: string; state?: string | null | undefined },
  answer: Record<string, string>,
): string {
  const query = new URLSearchParams({ ...answer, ...(state != null && { state }), iss: baseUrl });
  return `${redirectUri}${redirectUri.includes("?") ? "&" : "?"}${query}`;
}

import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { rootOf } from "../input/url.ts";
import { type Route, route } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";
import type { AuthenticateClient } from "./client_authentication.ts";
import {
  type AuthorizationParameters,
  type ConnectRequest,
  findProduct,
  isRedirectUri,
  isState,
  openRequest,
  type Product,
  PUSHED_SECONDS,
  readAuthorization,
  redirectAddress,
  signRequest,
} from "./connect_request.ts";
import { inOAuth, OAuthRefusal, oauthAnswers, readForm } from "./oauth_refusal.ts";

/** Dependencies of the operations that begin a connection. */
export type AuthorizeDeps = {
  db: Database;
  secretBox: SecretBox;
  clock: Clock;
  baseUrl: string;
  word: string;
};

const REQUEST_URI = "urn:ietf:params:oauth:request_uri:";

/**
 * `GET /v1/service/oauth/authorize`: checks a product's request, and sends the browser to the page on which a
 * person decides. Needs no session. An unknown client or redirect URI is an error answer, never a redirect.
 * Other errors go to the redirect URI.
 */
export function authorizeRoute(deps: AuthorizeDeps): Route {
  return route({
    id: "oauth_authorize",
    method: "GET",
    path: "/v1/service/oauth/authorize",
    summary: "Begin to connect a customer (OAuth 2.0)",
    access: "public",
    query: z.record(z.string(), z.string()),
    answer: {
      status: 303,
      schema: z.undefined(),
      description: "A redirect",
      headers: { Location: "Address" },
    },
    errors: ["not_found", "invalid_redirect_uri"],
    async handle({ query, header }) {
      const location = await begin(deps, query).catch((error: unknown) => {
        if (!(error instanceof ApiError) || !/\btext\/html\b/.test(header("accept") ?? "")) throw error;
        return refusedPage(deps, error);
      });
      return { body: undefined, headers: { location } };
    },
  });
}

/** Returns this service's page for people about a refusal. A browser never goes anywhere else with it. */
function refusedPage({ baseUrl }: AuthorizeDeps, { code }: ApiError): string {
  return `${rootOf(baseUrl)}/console/connect-refused?${new URLSearchParams({ reason: code })}`;
}

async function begin(deps: AuthorizeDeps, asked: AuthorizationParameters): Promise<string> {
  const product = await findProduct(deps.db, asked.client_id);
  if (product === undefined) throw new ApiError("not_found", "client_id: there is no such platform");
  const pushed =
    asked.request_uri === undefined ? undefined : pushedRequest(deps, product, asked.request_uri);
  const redirectUri = pushed?.redirectUri ?? asked.redirect_uri;
  if (!isRedirectUri(product, redirectUri)) throw new ApiError("invalid_redirect_uri");
  try {
    const request = pushed ?? readAuthorization(product, redirectUri, { ...asked, account_label: undefined });
    return `${rootOf(deps.baseUrl)}/console/connect/${signRequest(deps, request, "connect_request")}`;
  } catch (error) {
    if (!(error instanceof OAuthRefusal)) throw error;
    if (!mayReturnError(product, redirectUri)) throw new ApiError("invalid_request", error.message);
    const state = asked.state !== undefined && isState(asked.state) ? asked.state : undefined;
    return redirectAddress(deps.baseUrl, { redirectUri, state }, error.members);
  }
}

/** Throws `invalid_request`, because without the request there is no trusted address to return to. */
function pushedRequest(deps: AuthorizeDeps, product: Product, uri: string): ConnectRequest {
  const signed = uri.startsWith(REQUEST_URI) ? uri.slice(REQUEST_URI.length) : "";
  const request = openRequest(deps, signed, "pushed_request");
  if (request?.platformId !== product.platform_id) {
    throw new ApiError("invalid_request", "request_uri: unknown or expired; push the request again");
  }
  return request;
}

/**
 * Returns whether an error may go back before a person has seen a page. Anybody can register a draft with any
 * `https` address, so that an automatic redirect would lead from this service to any page (RFC 9700 §4.11.2).
 */
function mayReturnError({ publish_state }: Product, redirectUri: string): boolean {
  return publish_state === "published" || redirectUri.startsWith("http:");
}

/** `POST /v1/service/oauth/par`: accepts a request from a product's backend (RFC 9126). Stores nothing. */
export function pushRoute(deps: AuthorizeDeps, authenticateClient: AuthenticateClient): Route {
  return route({
    id: "oauth_push_request",
    method: "POST",
    path: "/v1/service/oauth/par",
    summary: "Push an authorization request (RFC 9126)",
    access: "public",
    reads: true,
    bodyForm: "form",
    answer: {
      status: 201,
      schema: z.object({ request_uri: z.string(), expires_in: z.number().int() }),
      description: "The reference",
    },
    otherAnswers: oauthAnswers,
    errors: [],
    handle: (call) =>
      inOAuth(async () => {
        const form = readForm(call);
        const product = await findProduct(deps.db, await authenticateClient(call, form));
        if (product === undefined) throw new OAuthRefusal("invalid_client");
        const { redirect_uri } = form;
        if (form.request_uri !== undefined || !isRedirectUri(product, redirect_uri)) {
          throw new OAuthRefusal(
            "invalid_request",
            "redirect_uri is not registered, or request_uri is present",
          );
        }
        const signed = signRequest(deps, readAuthorization(product, redirect_uri, form), "pushed_request");
        return { body: { request_uri: `${REQUEST_URI}${signed}`, expires_in: PUSHED_SECONDS } };
      }),
  });
}

const WELL_KNOWN = "/.well-known/oauth-authorization-server";

/**
 * `GET /.well-known/oauth-authorization-server`: metadata for clients (RFC 8414), from the configured base
 * URL only. A base URL with a path is served like the metadata of AuthZEN.
 */
export function oauthMetadataRoute({ baseUrl, word }: AuthorizeDeps): Route {
  const base = rootOf(baseUrl);
  const path = URL.parse(base)?.pathname.replace(/\/+$/, "") ?? "";
  const at = `${base}/v1/${word}/oauth`;
  const metadata = {
    issuer: baseUrl,
    authorization_endpoint: `${at}/authorize`,
    token_endpoint: `${at}/token`,
    pushed_authorization_request_endpoint: `${at}/par`,
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code"],
    token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
    code_challenge_methods_supported: ["S256"],
    authorization_response_iss_parameter_supported: true,
  };
  return route({
    id: "oauth_metadata",
    method: "GET",
    path: WELL_KNOWN,
    ...(path === "" ? {} : { alsoAt: [`${WELL_KNOWN}${path}`, `${path}${WELL_KNOWN}`] }),
    summary: "Find the OAuth endpoints",
    access: "public",
    answer: { status: 200, schema: z.record(z.string(), z.unknown()), description: "RFC 8414 metadata" },
    errors: [],
    handle: async () => ({ body: metadata }),
  });
}

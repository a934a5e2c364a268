import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { Answer, Call } from "../route.ts";

/** Error codes of OAuth that this service sends, with their default descriptions. */
const descriptions = {
  invalid_request: "The request is malformed",
  invalid_client: "The client is unknown, or its secret is wrong",
  invalid_grant: "The code is unknown, used, expired or not for this client, redirect URI or verifier",
  unsupported_grant_type: "grant_type must be authorization_code",
  unsupported_response_type: "response_type must be code",
  invalid_scope: "The scope is unknown or too wide",
  request_not_supported: "The parameter request is not supported; push the request instead",
} as const;

export type OAuthErrorCode = keyof typeof descriptions;

/** A refusal in the words of OAuth. Its description never has a secret or a text of the caller. */
export class OAuthRefusal extends Error {
  readonly code: OAuthErrorCode;
  readonly headers: Record<string, string>;

  constructor(code: OAuthErrorCode, message?: string, headers: Record<string, string> = {}) {
    super(message ?? descriptions[code]);
    this.name = "OAuthRefusal";
    this.code = code;
    this.headers = headers;
  }

  get members(): { error: OAuthErrorCode; error_description: string } {
    return { error: this.code, error_description: this.message };
  }
}

/** The body of a refusal at the token and the pushed authorization request endpoint (RFC 6749 §5.2). */
const oauthError = z.object({ error_description: z.string(), error: z.string() });

/** The refusals of the endpoints that clients call themselves. */
export const oauthAnswers = {
  400: { schema: oauthError, description: "RFC 6749 §5.2" },
  401: {
    schema: oauthError,
    description: "invalid_client",
    optionalHeaders: { "WWW-Authenticate": "Basic" },
  },
};

/** Runs the work of an endpoint, and answers its refusals as RFC 6749 §5.2 describes. */
export async function inOAuth<R>(work: () => Promise<Answer<R>>): Promise<Answer<R>> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof OAuthRefusal)) throw error;
    const status = error.code === "invalid_client" ? 401 : 400;
    return { status, body: error.members as R, headers: error.headers };
  }
}

/** Converts a refusal of the service to `invalid_grant`, with the service's code in its description. */
export function asInvalidGrant(error: unknown): unknown {
  if (!(error instanceof ApiError) || error.status >= 429) return error;
  return new OAuthRefusal("invalid_grant", `${error.code}: ${error.message}`);
}

/** The parameters of a form by their names. */
export type Form = Record<string, string>;

const FORM = /^application\/x-www-form-urlencoded\s*(?:;\s*charset="?utf-?8"?\s*)?$/i;

/** Returns the parameters of a form. Throws `invalid_request` for another type or a repeated parameter. */
export function readForm(call: Pick<Call<"public", unknown, unknown, unknown>, "body" | "header">): Form {
  if (!FORM.test(call.header("content-type") ?? "")) {
    throw new OAuthRefusal("invalid_request", "content-type must be application/x-www-form-urlencoded");
  }
  const form = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(String(call.body))) {
    if (form.has(name)) throw new OAuthRefusal("invalid_request", "A parameter is repeated");
    if (`${name}${value}`.includes("\0")) throw new OAuthRefusal("invalid_request");
    // Parameters without a value count as absent (RFC 6749 §3.1).
    if (value !== "") form.set(name, value);
  }
  return Object.fromEntries(form);
}

import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { rateLimited } from "../errors.ts";
import { networkOf } from "../rates/client_rates.ts";
import { createPace } from "../rates/pace.ts";
import type { SecretBox } from "../secret_box.ts";
import { OAuthRefusal } from "./oauth_refusal.ts";
import { isClientSecret } from "./signing_secret.ts";

const WRONG_PER_MINUTE = 60;

type Presented = { id: string; secret: string };
type Call = { ip: string; header(name: string): string | undefined };

/** Returns the id of the platform that makes a call. Throws `invalid_client`, `rate_limited`. */
export type AuthenticateClient = (call: Call, form: Record<string, string>) => Promise<string>;

/**
 * Creates a function that authenticates clients by `client_secret_basic` or `client_secret_post` (RFC 6749
 * §2.3.1). A right secret is always accepted. Only wrong ones count, by the network of the caller, so that
 * nobody can lock out a client: neither from elsewhere nor from the client's own network.
 */
export function createAuthenticateClient(deps: {
  db: Database;
  secretBox: SecretBox;
  clock: Clock;
}): AuthenticateClient {
  const wrong = createPace({ perMinute: WRONG_PER_MINUTE, clock: deps.clock });
  return async ({ ip, header }, form) => {
    const authorization = header("authorization");
    const { id, secret } = presentedBy(authorization, form);
    if (await isClientSecret(deps, id, secret)) return id;
    const { admitted, waitMs } = wrong.take(networkOf(ip));
    if (!admitted) throw rateLimited("Too many wrong client secrets", waitMs);
    const challenge = authorization === undefined ? {} : { "www-authenticate": 'Basic realm="oauth"' };
    throw new OAuthRefusal("invalid_client", undefined, challenge);
  };
}

function presentedBy(authorization: string | undefined, form: Record<string, string>): Presented {
  const { client_id = "", client_secret } = form;
  if (authorization === undefined) return { id: client_id, secret: client_secret ?? "" };
  if (client_secret !== undefined) {
    throw new OAuthRefusal("invalid_request", "Send the client secret in one place only");
  }
  const [, encoded = ""] = /^Basic +([A-Za-z0-9+/]+=*)$/i.exec(authorization) ?? [];
  const [id = "", ...rest] = Buffer.from(encoded, "base64").toString().split(":");
  const presented = { id: decoded(id), secret: decoded(rest.join(":")) };
  if (client_id !== "" && client_id !== presented.id) {
    throw new OAuthRefusal("invalid_request", "client_id differs from the one in Authorization");
  }
  return presented;
}

/** Returns the text of a form-encoded value, or an empty text for a malformed one. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value.replaceAll("+", " "));
  } catch {
    return "";
  }
}

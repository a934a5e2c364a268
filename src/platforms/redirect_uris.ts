import { ApiError } from "../errors.ts";

const LOOPBACK: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];
const HOST = /^(?:[a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:]+\])$/;
/** Parameters that the service appends to a redirect URI. */
const OWN_PARAMETERS = ["code", "state", "iss", "error", "error_description"];

/**
 * Throws `invalid_redirect_uri` for the first redirect URI that a platform must not have. `domain` is the
 * verified domain of a published platform, and `null` for a draft.
 */
export function checkRedirectUris(uris: readonly string[], domain: string | null): void {
  for (const uri of uris) {
    const fault = redirectUriFault(uri, domain);
    if (fault !== undefined) throw new ApiError("invalid_redirect_uri", `The redirect URI "${uri}" ${fault}`);
  }
}

/**
 * Returns why a platform must not have a redirect URI, or `undefined`. A published platform may have `https`
 * URIs on its verified domain and on subdomains of it. A draft may have any `https` URI, and loopback `http`.
 * A URI must be written as browsers write it, so that no two parsers read it differently.
 */
export function redirectUriFault(uri: string, domain: string | null): string | undefined {
  const url = URL.parse(uri);
  if (url === null) return "must be a URL";
  const isLoopback = url.protocol === "http:" && LOOPBACK.includes(url.hostname);
  if (url.protocol !== "https:" && !(isLoopback && domain === null)) {
    return domain === null ? "must be https, or http on this machine" : "must be https";
  }
  if (uri.includes("#") || url.username !== "" || url.password !== "") {
    return "must not have a fragment, a user or a password";
  }
  if (url.href !== uri) return `must be written as ${url.href}`;
  // The policy of the page on which a person decides contains the host.
  if (!HOST.test(url.hostname)) return "must have a host of letters, digits, hyphens and dots";
  const taken = OWN_PARAMETERS.find((name) => url.searchParams.has(name));
  if (taken !== undefined) return `must not have the parameter ${taken}`;
  if (domain !== null && url.hostname !== domain && !url.hostname.endsWith(`.${domain}`)) {
    return `must be on ${domain} or a subdomain of it`;
  }
  return undefined;
}

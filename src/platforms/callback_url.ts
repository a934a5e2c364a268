import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { ApiError } from "../errors.ts";

/** UTF-16 units a callback URL may have. */
export const MAX_CALLBACK_URL_LENGTH = 2048;

/**
 * Refuses with `invalid_callback_url` what can be told from a callback URL's text. Outside development: `https`, a host
 * name that is not this machine's own. In development `http` and loopback addresses besides. Never: other IP literals,
 * a user or password, a fragment, white space, backslashes. What the name resolves to is checked at every delivery.
 */
export function checkCallbackUrl(text: string, { development }: { development: boolean }): void {
  const fault = callbackUrlFault(text, development);
  if (fault !== undefined) throw new ApiError("invalid_callback_url", `callback_url: ${fault}`);
}

function callbackUrlFault(text: string, development: boolean): string | undefined {
  if (text.length > MAX_CALLBACK_URL_LENGTH) return `longer than ${MAX_CALLBACK_URL_LENGTH} characters`;
  if (/[\s\\\p{Cc}]/u.test(text)) return "white space, control characters and backslashes are not allowed";
  const url = URL.parse(text);
  if (url === null) return "not an absolute URL";
  if (url.protocol !== "https:" && !(development && url.protocol === "http:")) return "must be https";
  if (url.username !== "" || url.password !== "") return "must not carry a user or a password";
  if (text.includes("#")) return "must not carry a fragment";
  return hostFault(url.hostname, development);
}

function hostFault(hostname: string, development: boolean): string | undefined {
  const address = hostname.replace(/^\[|\]$/g, "");
  if (isIP(address) !== 0) {
    return development && ipaddr.process(address).range() === "loopback"
      ? undefined
      : "must name a host, not an IP address";
  }
  const name = address.replace(/\.$/, "");
  if (!development && (name === "localhost" || name.endsWith(".localhost"))) {
    return "must not name this machine";
  }
  return undefined;
}

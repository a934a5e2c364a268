import { isIP } from "node:net";
import { writesItsHost } from "../../../input/url.ts";
import type { AddressPolicy } from "./addresses.ts";
import { isForeignPort } from "./ports.ts";

const LONGEST_URL = 2048;

/** Why a callback URL is refused before anything is resolved or sent. */
export type CallbackRefusal =
  | "not a URL of at most 2048 characters"
  | "the scheme must be https"
  | "the host must be between https:// and the next slash"
  | "it must not contain a backslash"
  | "the port belongs to another protocol"
  | "it must not contain a user name or password"
  | "the host must be a name that is not this machine's own";

/**
 * Checks the form of a callback URL: https (http in development), its host where it belongs, no backslash,
 * which parsers read differently, no port of another protocol, no user information, a host name rather than
 * an address. Literal addresses and `localhost` pass only as far as the policy's allow-list names them. What
 * the name resolves to is checked at every attempt.
 */
export function checkCallbackUrl(
  text: string,
  policy: AddressPolicy,
): { url: URL } | { refused: CallbackRefusal } {
  const url = text.length <= LONGEST_URL ? URL.parse(text) : null;
  if (url === null) return { refused: "not a URL of at most 2048 characters" };
  if (url.protocol !== "https:" && !(policy.development && url.protocol === "http:")) {
    return { refused: "the scheme must be https" };
  }
  if (!writesItsHost(text)) return { refused: "the host must be between https:// and the next slash" };
  if (text.includes("\\")) return { refused: "it must not contain a backslash" };
  if (isForeignPort(url)) return { refused: "the port belongs to another protocol" };
  if (url.username !== "" || url.password !== "") {
    return { refused: "it must not contain a user name or password" };
  }
  const address = fixedAddress(url);
  if (url.hostname === "" || (address !== undefined && !policy.allows(address))) {
    return { refused: "the host must be a name that is not this machine's own" };
  }
  return { url };
}

/**
 * The address of a URL whose host needs no resolver: a literal one, or 127.0.0.1 for `localhost` and names
 * below it.
 */
export function fixedAddress(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0) return host;
  return /(^|\.)localhost\.?$/.test(host) ? "127.0.0.1" : undefined;
}

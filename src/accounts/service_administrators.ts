import { ConfigError } from "../config.ts";
import { canonicalEmail } from "./email.ts";

/**
 * Returns a function that checks whether an account's canonical address is a service administrator's. A
 * person who signed in with that address has read email sent to it. Throws `ConfigError` for an entry that is
 * not an email address.
 */
export function createIsServiceAdministrator(addresses: readonly string[]): (email: string) => boolean {
  const known = new Set(
    addresses.map((address) => (isWildcard(address) ? undefined : canonicalEmail(address))),
  );
  if (known.has(undefined)) {
    throw new ConfigError(
      "Settings are missing or wrong:\n  SERVICE_ADMINISTRATORS: must be e-mail addresses, separated by commas",
    );
  }
  return (email) => known.has(email);
}

/** RFC 5322 permits `*` as the name of a mailbox, but in this setting it would mean everybody of a domain. */
function isWildcard(address: string): boolean {
  return address.startsWith("*@");
}

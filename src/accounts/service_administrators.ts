import { ConfigError } from "../config.ts";
import { canonicalEmail } from "./email.ts";

/**
 * Says whose address is one of those who look after the service. Addresses are compared in the form that
 * accounts have them; who signs in with one has read a mail to it. Throws `ConfigError` for what is none.
 */
export function createIsServiceAdministrator(addresses: readonly string[]): (email: string) => boolean {
  const known = new Set(addresses.map(canonicalEmail));
  if (known.has(undefined)) {
    throw new ConfigError(
      "Settings are missing or wrong:\n  SERVICE_ADMINISTRATORS: must be e-mail addresses, with commas",
    );
  }
  return (email) => known.has(email);
}

import { domainToASCII, domainToUnicode } from "node:url";
import { z } from "zod";
import { HIDDEN } from "../input/plain_text.ts";

const MAX_BYTES = 254;
const MAX_LOCAL_BYTES = 64;
const MAX_DOMAIN_BYTES = 253;

/** Characters other than letters and digits that an atom may have (RFC 5322 §3.2.3). */
const ATOM_SIGNS = "!#$%&'*+\\-/=?^_`{|}~";
const ATOM = `[\\p{L}\\p{N}${ATOM_SIGNS}][\\p{L}\\p{N}\\p{M}${ATOM_SIGNS}]*`;
/** The part before `@`: dot-separated atoms of letters, digits and marks of any script, and the signs. */
const LOCAL = new RegExp(`^${ATOM}(\\.${ATOM})*$`, "u");
/** Characters that UTS 46 would drop or that cannot be part of a domain. */
const NO_DOMAIN = /[\p{C}\p{Z}/\\:?#@[\]%]/u;
const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const DOMAIN = new RegExp(`^(?:${LABEL}\\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])$`);
/** Scripts with letters that look alike. */
const ALIKE = [/\p{Script=Latin}/u, /\p{Script=Greek}/u, /\p{Script=Cyrillic}/u, /\p{Script=Armenian}/u];

/**
 * Returns the canonical form of an email address: the part before `@` in lower case and NFC, the domain in
 * lower-case ASCII (IDNA, UTS 46). The service compares, stores, shows and sends email to this form only.
 * Whoever can read mail to the canonical form owns the account, however the address was written.
 *
 * Returns `undefined` for a string that is not an address, and for an address that could be mistaken for
 * a different one. The latter contains invisible or compatibility characters, or before `@` letters of more
 * than one of Latin, Greek, Cyrillic and Armenian. Quoted local parts, IP addresses in brackets and hosts
 * without a dot do not count as addresses.
 */
export function canonicalEmail(text: string): string | undefined {
  const at = text.lastIndexOf("@");
  if (at < 1 || !text.isWellFormed() || HIDDEN.test(text)) return undefined;
  const local = text.slice(0, at).normalize("NFC").toLowerCase().normalize("NFC");
  const domain = canonicalDomain(text.slice(at + 1));
  if (domain === undefined || !isLocalPart(local)) return undefined;
  const address = `${local}@${domain}`;
  return Buffer.byteLength(address) > MAX_BYTES ? undefined : address;
}

function isLocalPart(local: string): boolean {
  return (
    Buffer.byteLength(local) <= MAX_LOCAL_BYTES &&
    LOCAL.test(local) &&
    local.normalize("NFKC") === local &&
    ALIKE.filter((script) => script.test(local)).length <= 1
  );
}

/** Returns a domain in lower-case ASCII, or `undefined` for a string that is not a domain. */
export function canonicalDomain(text: string): string | undefined {
  if (NO_DOMAIN.test(text)) return undefined;
  const domain = domainToASCII(text.normalize("NFC"));
  const shown = domainToUnicode(domain);
  const isFaithful = domainToASCII(shown) === domain && !/(^|\.)xn--/.test(shown);
  return domain.length <= MAX_DOMAIN_BYTES && DOMAIN.test(domain) && isFaithful ? domain : undefined;
}

/** The schema of an email address in a call: at most 254 bytes, converted by {@link canonicalEmail}. */
export const emailAddress = z
  .string()
  .max(MAX_BYTES)
  .describe("An e-mail address, letters of any script included")
  .transform((text, context) => {
    const address = canonicalEmail(text);
    if (address !== undefined) return address;
    context.addIssue({
      code: "custom",
      message: "must be an e-mail address that the service accepts; see the API reference",
    });
    return z.NEVER;
  });

import { domainToASCII, domainToUnicode } from "node:url";
import { z } from "zod";
import { HIDDEN } from "../input/plain_text.ts";

const MAX_BYTES = 254;
const MAX_LOCAL_BYTES = 64;
const MAX_DOMAIN_BYTES = 253;

/** Atoms between dots: letters, digits and marks of any script, and `_ ' + -`. */
const LOCAL = /^[\p{L}\p{N}_'+-][\p{L}\p{N}\p{M}_'+-]*(\.[\p{L}\p{N}_'+-][\p{L}\p{N}\p{M}_'+-]*)*$/u;
/** What UTS 46 would drop or read as something else than a part of the domain. */
const NO_DOMAIN = /[\p{C}\p{Z}/\\:?#@[\]%]/u;
const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const DOMAIN = new RegExp(`^(?:${LABEL}\\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])$`);
/** Scripts whose letters look alike. */
const ALIKE = [/\p{Script=Latin}/u, /\p{Script=Greek}/u, /\p{Script=Cyrillic}/u, /\p{Script=Armenian}/u];

/**
 * The one form of an address that is compared, kept, shown and mailed to: the part before `@` in lower case
 * and NFC, the domain in lower-case ASCII (IDNA, UTS 46), so that a domain of another script shows as
 * `xn--…`. Mail goes to this very form: the person who can read it owns the account, however the address was
 * written.
 *
 * `undefined` for what is not an address, and for those that could be taken for another: with invisible
 * characters, even where a script has a use for them, with compatibility characters, or with letters of
 * Latin, Greek, Cyrillic and Armenian mixed before `@`. Quoted local parts, addresses in brackets and hosts
 * without a dot are not addresses here.
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

/** A domain in the form that addresses have: lower-case ASCII. `undefined` for what is not one. */
export function canonicalDomain(text: string): string | undefined {
  if (NO_DOMAIN.test(text)) return undefined;
  const domain = domainToASCII(text.normalize("NFC"));
  const shown = domainToUnicode(domain);
  const isFaithful = domainToASCII(shown) === domain && !/(^|\.)xn--/.test(shown);
  return domain.length <= MAX_DOMAIN_BYTES && DOMAIN.test(domain) && isFaithful ? domain : undefined;
}

/** An e-mail address as a call carries it, as {@link canonicalEmail} has it; at most 254 bytes. */
export const emailAddress = z
  .string()
  .max(MAX_BYTES)
  .describe("An e-mail address, letters of any script included")
  .transform((text, context) => {
    const address = canonicalEmail(text);
    if (address !== undefined) return address;
    context.addIssue({
      code: "custom",
      message: "is not an e-mail address that can be used; see the API's reference",
    });
    return z.NEVER;
  });

import { parse } from "tldts";
import { z } from "zod";
import { canonicalDomain } from "../../accounts/email.ts";
import { ApiError } from "../../errors.ts";

/** A domain as a call carries it. Whether it can be verified is checked by {@link readDomain}. */
export const domainText = z.string().min(1).max(253).describe("Such as example.com; any script");

/**
 * A domain in its one form, lower-case ASCII (IDNA). Throws `invalid_domain` for addresses, for names under
 * no public suffix or under `arpa`, and for public suffixes themselves, private ones such as `github.io`
 * included: what is under these is other people's.
 */
export function readDomain(text: string): string {
  const domain = canonicalDomain(text);
  const found = domain === undefined ? undefined : parse(domain, { allowPrivateDomains: true });
  const isRegistrable = found?.domain != null && (found.isIcann === true || found.isPrivate === true);
  const isReverse = found?.publicSuffix?.endsWith("arpa") === true;
  if (domain === undefined || !isRegistrable || isReverse) throw new ApiError("invalid_domain");
  return domain;
}

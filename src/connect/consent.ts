import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import type { Database, Transaction } from "../db/database.ts";
import type { Consent } from "../db/key_tables.ts";
import { ApiError } from "../errors.ts";
import { checkCeiling, checkScopes } from "../input/ceiling.ts";
import { MAX_SCOPES, shownDescriptions } from "../input/platform_fields.ts";
import { findOwner } from "../platforms/account_owner.ts";
import { pickDescriptions } from "../platforms/scope_descriptions.ts";
import type { Product } from "./connect_request.ts";

/** The words of a {@link Consent} in an answer, for `z.object`. */
export const shownWords = {
  platform: z.object({ platform_id: z.string(), name: z.string() }),
  publisher: z.object({ name: z.string(), domain: z.string().nullable() }),
  account_label: z.string().nullable(),
  scopes: z.array(z.string()),
  scope_descriptions: shownDescriptions,
};

/** Returns the words of a consent as an answer shows them. */
export function showWords(platform_id: string, consent: Consent) {
  const { platform_name, publisher_name, published_domain, ...words } = consent;
  return {
    platform: { platform_id, name: platform_name },
    publisher: { name: publisher_name, domain: published_domain },
    ...words,
  };
}

/** The body of a decision: the chosen scopes, and the hash of the words that the person read. */
export const decisionBody = z.object({
  scopes: z.array(z.string()).max(MAX_SCOPES),
  consent_hash: z.string(),
});

/** Returns the words that a person reads now about a product that asks for these scopes. */
export async function consentOf(
  db: Database | Transaction,
  product: Product,
  { scopes, accountLabel }: { scopes: string[]; accountLabel: string | null },
): Promise<Consent> {
  const { orgName } = await findOwner(db, product.account_id);
  return {
    platform_name: product.name,
    publisher_name: orgName,
    published_domain: product.published_domain,
    account_label: accountLabel,
    scopes,
    scope_descriptions: pickDescriptions(product.scope_descriptions, scopes),
  };
}

/** Returns the hash that names these words, with everything else that the person reads. */
export function hashConsent(consent: Consent, ...more: string[]): string {
  return hash("sha256", JSON.stringify(more.length === 0 ? consent : [consent, ...more]));
}

/** Throws `invalid_scopes` if a person decides about other words than the page has now. */
export function checkSameWords(read: string | undefined, now: string): void {
  if (read === undefined || read === now) return;
  throw new ApiError("invalid_scopes", "The platform has changed what it asks for; read the page again");
}

/** Checks the scopes that a person chose from `offered`. Throws `invalid_scopes` and `ceiling_exceeded`. */
export function chooseScopes(offered: readonly string[], scopes: readonly string[]): string[] {
  const chosen = checkScopes(scopes);
  if (chosen.length === 0) throw new ApiError("invalid_scopes", "Choose at least one scope");
  checkCeiling(offered, chosen);
  return chosen;
}

/**
 * Returns whether two people read the same about a product and these scopes: its name, publisher, domain,
 * label of the account, and its words for the scopes. They may have been offered other scopes too.
 */
export function isSameWords(one: Consent, other: Consent, scopes: readonly string[]): boolean {
  const about = (read: Consent): Consent => ({
    ...read,
    scopes: [],
    scope_descriptions: pickDescriptions(read.scope_descriptions, scopes),
  });
  return isDeepStrictEqual(about(one), about(other));
}

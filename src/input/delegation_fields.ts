import { z } from "zod";
import { freeText, isoTimeInput } from "./schemas.ts";

const LONGEST_SECONDS = 2_147_483_647;

/** A constraint in calls and answers. Wire format §7 defines the fields of each type. */
export const constraint = z.record(z.string(), z.unknown());

/** Constraints in a call. */
export const constraintList = z.array(constraint).max(32);

/** Why something is denied or revoked. The body may be absent. */
export const reasonBody = z.object({ reason: freeText(500).nullish() }).optional();

/** Seconds from the approval to the end of a certificate. */
export const expirySeconds = z.number().int().min(1).max(LONGEST_SECONDS);

/**
 * The end of a certificate in a call: a time, or seconds after the approval. Without either, the certificate
 * is valid until revoked.
 */
export const expiryFields = {
  expires_at: isoTimeInput.nullish(),
  expires_in: expirySeconds.nullish(),
};

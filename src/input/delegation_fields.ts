import { z } from "zod";
import { freeText, isoTimeInput } from "./schemas.ts";

const LONGEST_SECONDS = 2_147_483_647;

/** A constraint as calls and answers carry it; the wire format §7 says what each type needs. */
export const constraint = z.record(z.string(), z.unknown());

/** Constraints as a call carries them. */
export const constraintList = z.array(constraint).max(32);

/** Why something is denied or revoked; the body may be left out. */
export const reasonBody = z.object({ reason: freeText(500).nullish() }).optional();

/** Seconds after its approval at which a certificate ends. */
export const expirySeconds = z.number().int().min(1).max(LONGEST_SECONDS);

/**
 * How a call may say when a certificate ends: a moment, or seconds after approval; neither: until revoked.
 */
export const expiryFields = {
  expires_at: isoTimeInput.nullish(),
  expires_in: expirySeconds.nullish(),
};

import { z } from "zod";
import { fitsBytes } from "../protocol/encoding/fields.ts";
import { freeText, isoTimeInput, oneLine } from "./schemas.ts";
import { jsonText } from "./validate.ts";

const LONGEST_SECONDS = 2_147_483_647;

/** A constraint in calls and responses. Wire format §7 defines the fields of each type. */
export const constraint = z.record(z.string(), z.unknown());

/** Constraints in a call. */
export const constraintList = z.array(constraint).max(32);

const MAX_CONSTRAINTS_BYTES = 16_384;

/** Constraints of a new request or of an approval. The list is stored, so its size is limited. */
export const boundedConstraints = constraintList
  .refine(
    (list) => fitsBytes(jsonText(list), MAX_CONSTRAINTS_BYTES),
    `must have at most ${MAX_CONSTRAINTS_BYTES} bytes as JSON`,
  )
  .describe(`At most ${MAX_CONSTRAINTS_BYTES} bytes of JSON`);

/** The purpose of a request, as one line of plain text. Pages and mails quote it, and never link it. */
export const purposeText = oneLine(300);

/** The reason for a denial or revocation. */
export const reasonFields = { reason: freeText(500).nullish() };

/** Body with the reason for a denial or revocation. The body may be absent. */
export const reasonBody = z.object(reasonFields).optional();

/** Seconds from the approval until a certificate expires. */
export const expirySeconds = z.number().int().min(1).max(LONGEST_SECONDS);

/** A certificate's expiry in a call: a time, or seconds after the approval. By default, there is none. */
export const expiryFields = {
  expires_at: isoTimeInput.nullish(),
  expires_in: expirySeconds.nullish(),
};

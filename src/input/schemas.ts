import { z } from "zod";
import { HIDDEN_TEXT, isPlainText } from "./plain_text.ts";

/**
 * Control characters (category Cc) for a character class of a regular expression. OpenAPI publishes the
 * patterns without flags, so the ranges are written out.
 */
export const CONTROLS = "\\u0000-\\u001f\\u007f-\\u009f";
const CONTROLS_BUT_BREAKS = "\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f";

/** Text without control characters. */
export const NO_CONTROLS = new RegExp(`^[^${CONTROLS}]*$`);

/**
 * Returns the schema of one line of human-readable text, trimmed and normalized to NFC. It is not empty, has
 * at most `max` characters, and has no control or hidden characters.
 */
export function oneLine(max: number) {
  return z
    .string()
    .trim()
    .normalize("NFC")
    .min(1)
    .max(max)
    .regex(NO_CONTROLS, "must not contain control characters")
    .refine(isPlainText, HIDDEN_TEXT);
}

/**
 * Returns the schema of a human-readable text of at most `max` characters, in NFC. The text may be empty and
 * have line breaks, but no hidden characters.
 */
export function freeText(max: number) {
  return recordedText(max).refine(isPlainText, HIDDEN_TEXT);
}

/**
 * Like {@link freeText}, but accepts hidden characters. For texts that an application reports and that no
 * user relies on for an approval.
 */
export function recordedText(max: number) {
  return z
    .string()
    .normalize("NFC")
    .max(max)
    .regex(new RegExp(`^[^${CONTROLS_BUT_BREAKS}]*$`), "must not contain control characters");
}

/** A time in responses: ISO 8601, UTC, milliseconds. */
export const isoTime = z.iso.datetime();

/** A time in requests: ISO 8601 with any offset, in a year that {@link isoTime} can represent. */
export const isoTimeInput = z.iso.datetime({ offset: true }).refine((text) => {
  const year = new Date(text).getUTCFullYear();
  return !(year < 0 || year > 9999);
}, "must be in a year from 0000 to 9999, in UTC");

/** The outcomes that an application can report for an operation that was decided. */
export const outcomeWord = z.enum(["executed", "failed", "refused_by_receiver", "not_attempted"]);

/** The text for which a list is searched. */
export const searchText = z
  .string()
  .trim()
  .normalize("NFC")
  .min(1)
  .max(100)
  .regex(/^[^\0]*$/);

/** An id in a path or a body, of any form. A malformed id is simply not found. */
export const idText = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\0]*$/);

/** A subject or a resource in a call of AuthZEN. */
export const authzenEntity = z.object({
  type: z.string().min(1),
  id: z
    .string()
    .min(1)
    .regex(/^[^\0]*$/, "must not contain U+0000"),
  properties: z.record(z.string(), z.unknown()).optional(),
});

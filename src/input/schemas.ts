import { z } from "zod";
import { HIDDEN_TEXT, isPlainText } from "./plain_text.ts";

/**
 * Control characters (category Cc) for a class of a pattern. Patterns are published with their schemas, but
 * no flag is.
 */
export const CONTROLS = "\\u0000-\\u001f\\u007f-\\u009f";
const CONTROLS_BUT_BREAKS = "\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f";

/** Text without control characters. */
export const NO_CONTROLS = new RegExp(`^[^${CONTROLS}]*$`);

/**
 * One line of text for people: trimmed, in NFC, not empty, at most `max` characters, without control or
 * hidden ones.
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

/** Text for people of at most `max` characters, in NFC; may be empty and have line breaks, hides nothing. */
export function freeText(max: number) {
  return recordedText(max).refine(isPlainText, HIDDEN_TEXT);
}

/**
 * As {@link freeText}, for what an application reports and nobody approves by: what it quotes may hide
 * something.
 */
export function recordedText(max: number) {
  return z
    .string()
    .normalize("NFC")
    .max(max)
    .regex(new RegExp(`^[^${CONTROLS_BUT_BREAKS}]*$`), "must not contain control characters");
}

/** A moment as answers carry it: ISO 8601, UTC, milliseconds. */
export const isoTime = z.iso.datetime();

/** A moment as requests may carry it: ISO 8601 with any offset, in a year that {@link isoTime} can show. */
export const isoTimeInput = z.iso.datetime({ offset: true }).refine((text) => {
  const year = new Date(text).getUTCFullYear();
  return !(year < 0 || year > 9999);
}, "must be in a year from 0000 to 9999, in UTC");

/** What an application can report of an operation that was decided on. */
export const outcomeWord = z.enum(["executed", "failed", "refused_by_receiver", "not_attempted"]);

/** What a list is searched for. */
export const searchText = z
  .string()
  .trim()
  .normalize("NFC")
  .min(1)
  .max(100)
  .regex(/^[^\0]*$/);

/**
 * An id in a path or a body. Its form is not judged here: what cannot be an id names nothing, which is
 * `not_found`.
 */
export const idText = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\0]*$/);

import { z } from "zod";
import { HIDDEN_TEXT, isPlainText } from "../input/plain_text.ts";
import { CONTROLS } from "../input/schemas.ts";

/**
 * A name that people read: 1 to `max` characters after trimming, in NFC, none of them a control, a line break
 * or hidden.
 */
export function displayName(max: number) {
  return z
    .string()
    .trim()
    .normalize("NFC")
    .min(1)
    .max(max)
    .regex(new RegExp(`^[^${CONTROLS}\\u2028\\u2029]*$`), "must not contain control characters")
    .refine(isPlainText, HIDDEN_TEXT);
}

import { z } from "zod";

/** A name that people read: 1 to `max` characters after trimming, none of them a control or a line break. */
export function displayName(max: number) {
  return z
    .string()
    .trim()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}\p{Zl}\p{Zp}]*$/u, "no control characters");
}

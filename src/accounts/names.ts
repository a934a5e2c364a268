import { z } from "zod";
import { CONTROLS } from "../schemas.ts";

/** A name that people read: 1 to `max` characters after trimming, none of them a control or a line break. */
export function displayName(max: number) {
  return z
    .string()
    .trim()
    .min(1)
    .max(max)
    .regex(new RegExp(`^[^${CONTROLS}\\u2028\\u2029]*$`), "no control characters");
}

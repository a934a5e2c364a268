import { z } from "zod";

/** An e-mail address as accounts are known by: at most 254 characters, in lower case. */
export const emailAddress = z
  .string()
  .max(254)
  .pipe(z.email())
  .transform((text) => text.toLowerCase());

import { z } from "zod";
import type { MailKind } from "../../db/tables.ts";

/**
 * The kinds of mails about requests:
 *
 * - `request_waits`: a request waits. Goes to everybody who may decide it.
 *
 * - `request_lapses`: an undecided request lapses within a day, or has lapsed. Goes to the same people.
 *
 * - `request_decided`: somebody else decided a request or a proposal of a product, or it lapsed. Goes to the
 *   person who asked or proposed.
 *
 * - `authority_lent`: a request was approved. Goes to the person who approved it.
 *
 * - `product_proposed`: a member proposed to connect a product. Goes to everybody who may connect it.
 */
export const mailKinds = [
  "request_waits",
  "request_lapses",
  "request_decided",
  "authority_lent",
  "product_proposed",
] as const satisfies MailKind[];
/** The kinds of mails about delegation requests. */
export const requestMailKinds = mailKinds.filter((kind) => kind !== "product_proposed");
export type { MailKind } from "../../db/tables.ts";

/** How often a person gets a kind of mail. With `daily`, at most one mail a day has everything new. */
export const mailChoice = z.enum(["every", "daily", "off"]);
export type MailChoice = z.infer<typeof mailChoice>;

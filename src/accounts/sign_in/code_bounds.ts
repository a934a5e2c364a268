import { CODE_TRIES } from "./codes.ts";

/** Wrong codes that an address takes in 24 hours, over all its codes and clients. */
export const DAY_TRIES = 30;
/** The same in 30 days: 13 times this is what a stranger can try in a year, against one in a million each. */
export const MONTH_TRIES = 75;

/** What an installation sets: mails with six digits. */
export type CodeBounds = {
  /** For one address and client in 15 minutes; calls without a cookie are one client. */
  perClient: number;
  /** For one address in 24 hours, over all clients. Those whose code was used do not count. */
  perDay: number;
};

/** What was mailed to an address and tried against it, as the bounds count it. */
export type AddressHistory = {
  /** Mails with six digits whose code was not used. */
  clientMails: number;
  dayMails: number;
  /** Wrong tries of codes that ended in the last 24 hours and 30 days, or have not ended. */
  dayTries: number;
  monthTries: number;
  /** Tries that are left to codes that are still good. */
  openTries: number;
  /** Whether a link that is still good was mailed so recently that no other one is. */
  linkWaits: boolean;
};

/**
 * What the next mail to an address carries: six digits while all bounds leave room, else a link, and no mail
 * while one is waiting. The tries that a code allows are set aside when it is mailed, so no client's wrong
 * codes use up another's, and the bounds hold whatever is tried.
 */
export function nextMail(
  history: AddressHistory,
  { anonymous, bounds }: { anonymous: boolean; bounds: CodeBounds },
): "digits" | "link" | "none" {
  const tries = history.openTries + (anonymous ? 2 * CODE_TRIES : CODE_TRIES);
  const hasRoom =
    history.clientMails < bounds.perClient &&
    history.dayMails < bounds.perDay &&
    history.dayTries + tries <= DAY_TRIES &&
    history.monthTries + tries <= MONTH_TRIES;
  if (hasRoom) return "digits";
  return history.linkWaits ? "none" : "link";
}

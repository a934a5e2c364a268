import { createHmac, hkdfSync, randomBytes, randomInt } from "node:crypto";

/** Seconds after which a code of six digits is refused; at 600 it is still good. */
export const CODE_SECONDS = 10 * 60;
/** Wrong codes after which even the right one is refused. */
export const CODE_TRIES = 5;
/** Seconds after which the long code of a link is refused. */
export const LINK_SECONDS = 60 * 60;

/** A code as a call carries it: six digits, or the 32 hex digits of a link. */
export const CODE_FORM = /^([0-9]{6}|[0-9a-f]{32})$/;

/** Keyed hashes: what is stored shows neither addresses nor codes to somebody who reads the database. */
export type CodeHashes = {
  address(email: string): Buffer;
  code(email: string, code: string): Buffer;
  /** Of the cookie by which a browser is known while it signs in. */
  client(cookie: string): Buffer;
};

/** Hashes under a key of their own, derived from the 32-byte sealing key. */
export function createCodeHashes(sealingKey: Uint8Array): CodeHashes {
  const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize sign-in codes v1", 32));
  const mac = (...parts: string[]) => createHmac("sha256", key).update(JSON.stringify(parts)).digest();
  return {
    address: (email) => mac("address", email),
    code: (email, code) => mac("code", email, code),
    client: (cookie) => mac("client", cookie),
  };
}

/** A fresh sign-in code: 6 digits, all equally likely (specification §8). */
export function newCode(): string {
  return randomInt(1_000_000).toString().padStart(6, "0");
}

/** The code of a link: 128 bits in hex, which nobody guesses. */
export function newLinkCode(): string {
  return randomBytes(16).toString("hex");
}

/** Wrong codes that an address takes in 24 hours, over all its codes and clients. */
export const DAY_TRIES = 30;
/** The same in 30 days: 13 times this is what a stranger can try in a year, against one in a million each. */
const MONTH_TRIES = 75;

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

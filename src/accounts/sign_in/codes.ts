import { createHmac, hkdfSync, randomBytes, randomInt } from "node:crypto";

/** Seconds after which a code of six digits is refused. It is still valid at exactly 600. */
export const CODE_SECONDS = 10 * 60;
/** Wrong codes after which even the right code is refused. */
export const CODE_TRIES = 5;
/** Seconds after which the long code of a link is refused. */
export const LINK_SECONDS = 60 * 60;

/** The form of a code in a call: six digits, or the 32 hex digits of a link. */
export const CODE_FORM = /^([0-9]{6}|[0-9a-f]{32})$/;

/** Keyed hashes. With them, the database reveals neither addresses nor codes. */
export type CodeHashes = {
  address(email: string): Buffer;
  code(email: string, code: string): Buffer;
  /** Returns the hash of the cookie that identifies a browser while it signs in. */
  client(cookie: string): Buffer;
};

/** Creates the hashes with a separate key, derived from the 32-byte sealing key. */
export function createCodeHashes(sealingKey: Uint8Array): CodeHashes {
  const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize sign-in codes v1", 32));
  const mac = (...parts: string[]) => createHmac("sha256", key).update(JSON.stringify(parts)).digest();
  return {
    address: (email) => mac("address", email),
    code: (email, code) => mac("code", email, code),
    client: (cookie) => mac("client", cookie),
  };
}

/** Returns a new sign-in code: 6 digits, all equally likely (specification §8). */
export function newCode(): string {
  return randomInt(1_000_000).toString().padStart(6, "0");
}

/** Returns the code of a link: 128 random bits in hex, too many to guess. */
export function newLinkCode(): string {
  return randomBytes(16).toString("hex");
}

/** Wrong codes allowed for an address in 24 hours, over all its codes and clients. */
export const DAY_TRIES = 30;
/**
 * Wrong codes allowed in 30 days. A stranger can try 13 times as many in a year, each with a chance of one in
 * a million.
 */
const MONTH_TRIES = 75;

/** Limits of mails with six digits, set for each installation. */
export type CodeBounds = {
  /** Mails for one address and client in 15 minutes. All calls without a cookie count as one client. */
  perClient: number;
  /** Mails for one address in 24 hours, over all clients. Mails whose code was used do not count. */
  perDay: number;
};

/** The mails and wrong codes of an address, as the limits count them. */
export type AddressHistory = {
  /** Mails with six digits whose code was not used. */
  clientMails: number;
  dayMails: number;
  /** Wrong tries of codes that ended in the last 24 hours or 30 days, or are still valid. */
  dayTries: number;
  monthTries: number;
  /** Remaining tries of valid codes. */
  openTries: number;
  /** Whether a valid link was mailed so recently that no other link is sent. */
  linkWaits: boolean;
};

/**
 * Decides what the next mail to an address contains: six digits while no limit is reached, otherwise a link,
 * and no mail while a link is waiting.
 *
 * The tries of a code are reserved when it is mailed. So no client's wrong codes use up another client's
 * tries, and the limits hold whatever is tried.
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

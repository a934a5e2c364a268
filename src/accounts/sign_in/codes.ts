import { createHmac, hkdfSync, randomBytes, randomInt } from "node:crypto";

/** Seconds after which a six-digit code is refused. At exactly this age, it is still valid. */
export const CODE_SECONDS = 10 * 60;
/** Number of wrong tries after which even the correct code is refused. */
export const CODE_TRIES = 5;
/** Number of six-digit codes that are valid for one browser at the same time. */
export const OWN_CODES = 2;
/** Seconds after which a link code is refused. */
export const LINK_SECONDS = 60 * 60;

/** The form of a sign-in code in a call: six digits, or the 32 hex digits of a link code. */
export const CODE_FORM = /^([0-9]{6}|[0-9a-f]{32})$/;

/**
 * Separators and invisible characters, which typing, pasting and mail programs add to a code. Japanese and
 * Chinese keyboards write `ー` and `。` for a hyphen and a dot.
 */
const BETWEEN = /[\s\p{Z}\p{Pd}\p{Cf}\u2212\u30fc.\u00b7\u30fb\u3002]/gu;

/** Returns a code as it was sent: ASCII digits and lower-case letters, without anything between them. */
export function plainCode(typed: string): string {
  return typed.normalize("NFKC").replaceAll(BETWEEN, "").toLowerCase();
}

/** Keyed hashes of addresses, codes and cookies. The database stores only these hashes. */
export type CodeHashes = {
  address(email: string): Buffer;
  code(email: string, code: string): Buffer;
  /** Returns the hash of the cookie that identifies a browser while it signs in. */
  client(cookie: string): Buffer;
};

/** Creates the hash functions with a separate key, derived from the 32-byte sealing key. */
export function createCodeHashes(sealingKey: Uint8Array): CodeHashes {
  const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize sign-in codes v1", 32));
  const mac = (...parts: string[]) => createHmac("sha256", key).update(JSON.stringify(parts)).digest();
  return {
    address: (email) => mac("address", email),
    code: (email, code) => mac("code", email, code),
    client: (cookie) => mac("client", cookie),
  };
}

/** Returns a new sign-in code: six digits, each code equally likely (specification §8). */
export function newCode(): string {
  return randomInt(1_000_000).toString().padStart(6, "0");
}

/** Returns a new link code: 128 random bits in hex, too many to guess. */
export function newLinkCode(): string {
  return randomBytes(16).toString("hex");
}

/** Number of wrong codes allowed for an address in 24 hours, across all its codes and clients. */
export const DAY_TRIES = 30;
/**
 * Number of wrong codes allowed for an address in 30 days. An attacker can try 13 times as many in a year,
 * each with a chance of one in a million.
 */
const MONTH_TRIES = 75;

/** Limits for emails with six-digit codes. Each installation can set them. */
export type CodeBounds = {
  /** Emails to one address for one client in 15 minutes. All calls without a cookie count as one client. */
  perClient: number;
  /** Emails to one address in 24 hours, across all clients. An email whose code was used does not count. */
  perDay: number;
};

/** An address's emails and wrong codes, as the limits count them. */
export type AddressHistory = {
  /** Emails whose six-digit code was not used, in the periods of {@link CodeBounds}. */
  clientMails: number;
  dayMails: number;
  /** Wrong tries of codes that are still valid, or that ended in the last 24 hours or in the last 30 days. */
  dayTries: number;
  monthTries: number;
  /** Remaining tries of all valid codes. */
  openTries: number;
  /** Whether a valid link was sent so recently that no other link is sent. */
  linkWaits: boolean;
};

/**
 * Decides what the next email to an address contains: six digits while no limit is reached, otherwise a link,
 * and no email while a recent link is waiting.
 *
 * A code's tries are reserved when its email is sent. So one client's wrong codes never use up a
 * different client's tries, and the limits hold whatever is tried.
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

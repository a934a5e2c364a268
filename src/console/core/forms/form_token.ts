import { createHmac, hash, timingSafeEqual } from "node:crypto";

/** Seconds after an act in which its notice is shown. */
export const NOTICE_SECONDS = 60;

/**
 * The token of a form that is bound to a browser before anybody is signed in there, made of the browser's
 * sign-in cookie: another site can neither read nor send that cookie.
 */
export function browserToken(cookie: string): string {
  return hash("sha256", `console form ${cookie}`, "base64url");
}

/** Whether a form carried the token of this cookie. */
export function isOfBrowser(token: string, cookie: string | undefined): boolean {
  return cookie !== undefined && isEqual(token, browserToken(cookie));
}

/**
 * A notice as an address carries it: its name, and a proof that it was made for this browser, whose token the
 * key is, at this moment. An address that somebody else made up says nothing.
 */
export function provenNotice(notice: string, key: string, now: Date): string {
  const made = Math.floor(now.getTime() / 1000).toString(36);
  return `${notice}.${made}.${proofOf(`${notice}.${made}`, key)}`;
}

/** The name of a notice that was proven for this browser just now. */
export function noticeIn(text: string, key: string, now: Date): string | undefined {
  const [, notice = "", made = "", proof = ""] = /^(\w+)\.([0-9a-z]{1,9})\.([\w-]+)$/.exec(text) ?? [];
  const age = now.getTime() / 1000 - Number.parseInt(made, 36);
  const isNew = age > -NOTICE_SECONDS && age < NOTICE_SECONDS;
  return key !== "" && isNew && isEqual(proof, proofOf(`${notice}.${made}`, key)) ? notice : undefined;
}

function proofOf(text: string, key: string): string {
  return createHmac("sha256", key).update(`console notice ${text}`).digest("base64url").slice(0, 22);
}

function isEqual(one: string, other: string): boolean {
  const [given, right] = [one, other].map((text) => hash("sha256", text, "buffer"));
  return given !== undefined && right !== undefined && timingSafeEqual(given, right);
}

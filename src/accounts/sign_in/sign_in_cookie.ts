import { randomBytes } from "node:crypto";
import type { CookieChange } from "../../route.ts";
import type { CodeClient } from "./sign_in_mails.ts";

/** Seconds for which a browser is known by its sign-in cookie, from its last code on. */
const SIGN_IN_SECONDS = 30 * 24 * 60 * 60;

/**
 * The browser that asks for a code: by its cookie, or a new one for a call without a cookie of the right
 * form.
 */
export function codeClient(cookie: string | undefined): CodeClient {
  const known = knownCookie(cookie);
  return known === undefined
    ? { cookie: randomBytes(32).toString("base64url"), anonymous: true }
    : { cookie: known, anonymous: false };
}

/**
 * A sign-in cookie's value, when it has the form of one. It proves nothing: it only keeps browsers' codes
 * apart.
 */
export function knownCookie(cookie: string | undefined): string | undefined {
  return cookie !== undefined && /^[A-Za-z0-9_-]{43}$/.test(cookie) ? cookie : undefined;
}

/** What makes the browser keep it. */
export function signInCookie({ cookie }: CodeClient): CookieChange {
  return { name: "sign_in", value: cookie, maxAgeSeconds: SIGN_IN_SECONDS };
}

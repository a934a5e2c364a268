import { hash, timingSafeEqual } from "node:crypto";

/**
 * The token of a form that is bound to a browser before anybody is signed in there, made of the browser's
 * sign-in cookie: another site can neither read nor send that cookie.
 */
export function browserToken(cookie: string): string {
  return hash("sha256", `console form ${cookie}`, "base64url");
}

/** Whether a form carried the token of this cookie. */
export function isOfBrowser(token: string, cookie: string | undefined): boolean {
  if (cookie === undefined) return false;
  const [given, right] = [token, browserToken(cookie)].map((text) => hash("sha256", text, "buffer"));
  return given !== undefined && right !== undefined && timingSafeEqual(given, right);
}

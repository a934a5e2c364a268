import { hash, timingSafeEqual } from "node:crypto";

/**
 * Double submit, bound to the session: whether the header repeats the cookie and both are the token that the
 * session was given (`csrfHash` is its SHA-256). Takes the same time whatever is presented.
 */
export function csrfMatches(
  cookie: string | undefined,
  header: string | undefined,
  csrfHash: Uint8Array,
): boolean {
  const [fromCookie, fromHeader] = [digest(cookie ?? ""), digest(header ?? "")];
  const repeated = timingSafeEqual(fromCookie, fromHeader);
  return timingSafeEqual(fromHeader, csrfHash) && repeated;
}

function digest(text: string): Buffer {
  return hash("sha256", text, "buffer");
}

/** Removes trailing slashes from a base URL, so that a path can be appended. */
export function rootOf(baseUrl: string): string {
  return baseUrl.replace(/\/+$/, "");
}

const WRITTEN_HOST = /^[a-z][a-z0-9+.-]*:\/\/[^/?#\\]+(?:[/?#]|$)/i;

/**
 * Returns whether a URL has its host where RFC 3986 requires it: between `//` and the next `/`, `?`, `#` or
 * the end. `URL` also finds hosts elsewhere (`https:///x`, `https:x`), and reads a backslash as a slash.
 * Another program could read a different host from such a URL.
 */
export function writesItsHost(text: string): boolean {
  return WRITTEN_HOST.test(text);
}

/** A base URL that paths can follow: without slashes at its end. */
export function rootOf(baseUrl: string): string {
  return baseUrl.replace(/\/+$/, "");
}

const WRITTEN_HOST = /^[a-z][a-z0-9+.-]*:\/\/[^/?#\\]+(?:[/?#]|$)/i;

/**
 * Whether a URL names its host where RFC 3986 has it: between `//` and the next `/`, `?`, `#` or the end.
 * `URL` finds a host elsewhere too (`https:///x` and `https:x` lead to x, and a backslash counts as a slash),
 * so what another program reads in such a text is another host.
 */
export function writesItsHost(text: string): boolean {
  return WRITTEN_HOST.test(text);
}

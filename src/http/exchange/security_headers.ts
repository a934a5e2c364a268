/**
 * Headers of every answer: nothing is guessed, framed, cached or passed on to the next site; https stays
 * https. A page replaces the policy with one of its own.
 */
export function securityHeaders(baseUrl: string): Record<string, string> {
  return {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    ...(baseUrl.startsWith("https:") ? { "strict-transport-security": "max-age=31536000" } : {}),
  };
}

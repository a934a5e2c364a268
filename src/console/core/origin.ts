import type { IncomingHttpHeaders } from "node:http";

/**
 * Whether a form was sent from a page of this origin, by the browser's own word: `Sec-Fetch-Site`, which no
 * page can set, or `Origin` where that is not sent. A request with neither is refused.
 */
export function isFromHere(headers: IncomingHttpHeaders, baseUrl: string): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin";
  return headers.origin !== undefined && headers.origin === new URL(baseUrl).origin;
}

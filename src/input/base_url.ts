/** A base URL that paths can follow: without slashes at its end. */
export function rootOf(baseUrl: string): string {
  return baseUrl.replace(/\/+$/, "");
}

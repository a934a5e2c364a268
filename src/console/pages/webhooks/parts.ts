import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import type { Visit } from "../../core/page.ts";
import { withNames } from "../../elements/values.ts";

export type CallbackAnswer = Answers["get_callback"];

/** Returns the callback of the connection that the page's path names. */
export function loadCallback({ call, params }: Visit): Promise<CallbackAnswer> {
  return call("get_callback", { params: { connection_id: params.connection_id ?? "" } });
}

/** Returns the URL of a connection's page. `""` is the connection's main page. */
export function partAddress(
  { at, params }: Visit,
  part: string,
  query?: Record<string, string | undefined>,
): string {
  return at(`/connections/${encodeURIComponent(params.connection_id ?? "")}${part}`, query);
}

/** Returns links between the pages about a connection's deliveries. */
export function parts(visit: Visit, { platform_name }: CallbackAnswer): Html {
  const words = visit.texts.callbacks.parts;
  const links: [string, Piece][] = [
    ["", withNames(words.platform, platform_name)],
    ["/callback", words.callback],
    ["/webhook-secret", words.secret],
    ["/deliveries", words.deliveries],
    ["/recoveries", words.recoveries],
  ];
  return html`<nav aria-label=${words.label}><p class="actions">${links.map(([part, label]) => {
    const address = partAddress(visit, part);
    return html`<a href=${address} aria-current=${visit.own(visit.path) === address && "page"}>${label}</a>`;
  })}</p></nav>`;
}

/** Returns whether the callback currently accepts deliveries. */
export function isOpen({ callback_url, callback_state }: CallbackAnswer): boolean {
  return callback_url !== null && callback_state === "active";
}

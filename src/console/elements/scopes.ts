import { type Html, html } from "../../html/html.ts";

/** Scopes side by side. */
export function scopeList(scopes: readonly string[]): Html {
  return html`<ul class="scopes">${scopes.map((scope) => html`<li><code>${scope}</code></li>`)}</ul>`;
}

import { type Html, html, type Piece } from "../../html/html.ts";

/** What is known of a thing, name by name; `undefined` and `false` are unknown, and left out. */
export function facts(entries: readonly ([name: string, value: Piece] | false | undefined)[]): Html {
  return html`<dl class="facts">${entries.map(
    (entry) => entry && html`<dt>${entry[0]}</dt><dd>${entry[1]}</dd>`,
  )}</dl>`;
}

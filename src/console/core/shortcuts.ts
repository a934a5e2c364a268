import { type Html, html } from "../../html/html.ts";
import type { Visit } from "./page.ts";

/** The letter that opens a page after the key `g`, by page id. */
const LETTERS: Record<string, string | undefined> = {
  home: "h",
  requests: "r",
  delegations: "d",
  agents: "a",
  platforms: "p",
  history: "y",
};

/** Returns the letter that opens a page after the key `g`, if the page has one. */
export function letterOf(id: string): string | undefined {
  return LETTERS[id];
}

/** Returns the list of keyboard shortcuts, which a script opens. The person can switch them off. */
export function shortcutHelp({ texts }: Visit, entries: readonly { id: string; label: string }[]): Html {
  const words = texts.shortcuts;
  const keys = (...each: string[]) => each.map((key) => html`<kbd>${key}</kbd> `);
  return html`<button type="button" class="quiet small scripted" popovertarget="keys">${words.title}</button>
    <div id="keys" popover aria-label=${words.title}>
      <h2>${words.title}</h2>
      ${entries.map(({ id, label }) => {
        const letter = letterOf(id);
        return letter && html`<p>${keys("g", letter)}${label}</p>`;
      })}
      <p>${keys("/")}${words.search}</p>
      <p>${keys("?")}${words.help}</p>
      <p><label class="choice"><input type="checkbox" data-keys checked /><span>${words.on}</span></label></p>
      <p class="actions"><button type="button" class="quiet" popovertarget="keys">${words.close}</button></p>
    </div>`;
}

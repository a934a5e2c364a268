import { type Html, html } from "../../html/html.ts";
import type { Texts } from "../texts/texts.ts";

/** The note of a part that brings itself up to date: a script shows it when that failed. */
export function staleNote({ listing }: Texts): Html {
  return html`<p class="refusal" role="status" data-stale hidden>${listing.stale}</p>`;
}

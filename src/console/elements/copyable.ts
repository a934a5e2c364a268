import { type Html, html } from "../../html/html.ts";
import type { Texts } from "../texts/texts.ts";

/** Text to be copied, of one line. `id` is unique on the page. */
export function copyable({ listing }: Texts, { id, text }: { id: string; text: string }): Html {
  return html`<span class="copyable"><code id=${id}>${text}</code>
    <button type="button" class="quiet small" data-copy=${id} data-done=${listing.copied} hidden>${listing.copy}</button></span>`;
}

/** Text to be copied, of several lines. `id` is unique on the page. */
export function copyBlock({ listing }: Texts, { id, text }: { id: string; text: string }): Html {
  return html`<div class="copy-block"><pre id=${id} tabindex="0">${text}</pre>
    <button type="button" class="quiet small" data-copy=${id} data-done=${listing.copied} hidden>${listing.copy}</button></div>`;
}

/**
 * A secret that is shown here and never again, to copy and, where scripts run, to keep as a file. It belongs
 * on an answer to a form, which no address leads back to.
 */
export function shownOnce(
  { listing }: Texts,
  secret: { id: string; label: string; text: string; file: string },
): Html {
  const { id, label, text, file } = secret;
  return html`<div class="secret"><p><strong>${label}</strong></p>
    <pre id=${id} tabindex="0" aria-label=${label}>${text}</pre>
    <p class="actions"><button type="button" class="quiet small" data-copy=${id} data-done=${listing.copied} hidden>${listing.copy}</button>
    <button type="button" class="quiet small" data-download=${id} data-file=${file} hidden>${listing.download}</button></p>
    <p class="quiet">${listing.once}</p></div>`;
}

/** JSON to be read by those who want to. */
export function jsonBlock(value: unknown): Html {
  return html`<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre>`;
}

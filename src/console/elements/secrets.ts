import { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import { curlLine } from "../../proofs/try/curl.ts";
import type { Outcome, Visit } from "../core/page.ts";
import type { Texts } from "../texts/texts.ts";

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

/**
 * What a form answers that makes a secret: the secret the first time, and when the same form comes again that
 * it was shown.
 */
export async function onceOnly(
  make: () => Promise<Outcome>,
  again: { title: string; explain: string; links: readonly Html[] },
): Promise<Outcome> {
  return make().catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.code !== "answer_not_kept") throw error;
    const { title, explain, links } = again;
    return { title, content: html`<p class="notice">${explain}</p><p class="actions">${links}</p>` };
  });
}

/** How long it is until a moment, counted down where scripts run; what is said once it has passed. */
export function countdown({ texts, now }: Visit, to: Date): Html {
  const { left, over } = texts.countdown;
  const seconds = Math.ceil((to.getTime() - now.getTime()) / 1000);
  return html`<span class="countdown" data-countdown=${Math.max(0, seconds)} data-left=${left("{time}")} data-over=${over}>${
    seconds > 0 ? left(clock(seconds)) : over
  }</span>`;
}

/** Seconds as a clock shows them: hours, minutes, seconds. */
function clock(seconds: number): string {
  const pair = (number: number) => String(number).padStart(2, "0");
  return `${Math.floor(seconds / 3600)}:${pair(Math.floor(seconds / 60) % 60)}:${pair(seconds % 60)}`;
}

/** A line for a shell that calls the API with the key in `$API_KEY`, and changes nothing. */
export function tryKeyLine({ outside }: Visit, connectionId: string): string {
  const url = outside.url(`/v1/service/connections/${connectionId}/agents`);
  return curlLine({ url, header: outside.header("X-Service-API-Key"), apiKey: "$API_KEY" });
}

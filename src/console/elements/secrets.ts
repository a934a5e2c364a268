import { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import { curlLine } from "../../proofs/try/curl.ts";
import type { Outcome, Visit } from "../core/page.ts";
import type { Texts } from "../texts/texts.ts";

/**
 * Returns a secret with buttons that copy it or save it as a file. Use it only in the reply to a form: no URL
 * leads back to that reply, so the secret appears only once.
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
 * Returns the outcome of a form that creates a secret. If the form is submitted again, returns a note that
 * the secret was already shown.
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

/** Returns the time left until `to`, which a script counts down. After that time, returns a fixed text. */
export function countdown({ texts, now }: Visit, to: Date): Html {
  const { left, over } = texts.countdown;
  const seconds = Math.ceil((to.getTime() - now.getTime()) / 1000);
  return html`<span class="countdown" data-countdown=${Math.max(0, seconds)} data-left=${left("{time}")} data-over=${over}>${
    seconds > 0 ? left(clock(seconds)) : over
  }</span>`;
}

function clock(seconds: number): string {
  const pair = (number: number) => String(number).padStart(2, "0");
  return `${Math.floor(seconds / 3600)}:${pair(Math.floor(seconds / 60) % 60)}:${pair(seconds % 60)}`;
}

/** Returns a shell command that tests the API key in `$API_KEY` and changes nothing. */
export function tryKeyLine({ outside }: Visit, connectionId: string): string {
  const url = outside.url(`/v1/service/connections/${connectionId}/agents`);
  return curlLine({ url, header: outside.header("X-Service-API-Key"), apiKey: "$API_KEY" });
}

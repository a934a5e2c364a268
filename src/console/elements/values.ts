import { type Html, html, type Piece } from "../../html/html.ts";
import type { Texts } from "../texts/texts.ts";

/** How a state is meant: `good` as it should be, `warn` to be looked at, `bad` wrong, `plain` neither. */
export type Tone = "good" | "warn" | "bad" | "plain";

const MARKS: Record<Tone, string> = { good: "✓", warn: "!", bad: "✕", plain: "–" };

/** A state in words, with a mark and a colour of its own. */
export function badge(text: string, tone: Tone = "plain"): Html {
  return html`<span class=${`badge ${tone}`}><span aria-hidden="true">${MARKS[tone]} </span>${text}</span>`;
}

/** What is known of a thing, name by name; `undefined` and `false` are unknown, and left out. */
export function facts(entries: readonly ([name: string, value: Piece] | false | undefined)[]): Html {
  return html`<dl class="facts">${entries.map(
    (entry) => entry && html`<dt>${entry[0]}</dt><dd>${entry[1]}</dd>`,
  )}</dl>`;
}

const UTC = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  timeZone: "UTC",
});

/** A time as people read it: in UTC as it is sent, in the reader's zone once the script has seen it. */
export function time(at: Date | string): Html {
  const date = typeof at === "string" ? new Date(at) : at;
  return html`<time datetime=${date.toISOString()}>${UTC.format(date)} UTC</time>`;
}

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

/** JSON to be read by those who want to. */
export function jsonBlock(value: unknown): Html {
  return html`<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre>`;
}

/** What an object is called in its cluster: `namespace/name`, as far as it is known. */
export function objectName({ namespace, name }: { namespace: string | null; name: string | null }): string {
  return [namespace, name].filter((part) => part !== null).join("/");
}

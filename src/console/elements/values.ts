import { SOON_SECONDS } from "../../accounts/mailings/times.ts";
import { addSeconds } from "../../clock.ts";
import { type Html, html, type Piece } from "../../html/html.ts";
import type { Title } from "../core/page.ts";
import type { Texts } from "../texts/texts.ts";

/** How good a state is: `good` is as expected, `warn` needs attention, `bad` is wrong, `plain` is neutral. */
export type Tone = "good" | "warn" | "bad" | "plain";

const MARKS: Record<Tone, string> = { good: "✓", warn: "!", bad: "✕", plain: "–" };

/** Returns a state's name with a mark and a color. */
export function badge(text: string, tone: Tone = "plain"): Html {
  return html`<span class=${`badge ${tone}`}><span aria-hidden="true">${MARKS[tone]} </span>${text}</span>`;
}

/** Characters for private use, which no text of the console contains. */
const PLACEHOLDER = 0xe000;

/**
 * Returns a text about names that others chose. Each name is isolated, so that its writing direction has no
 * effect on the words around it.
 */
export function withNames(say: (...names: string[]) => string, ...names: readonly string[]): Html {
  const places = names.map((_, place) => String.fromCharCode(PLACEHOLDER + place));
  const parts = say(...places).split(/([\ue000-\ue00f])/);
  return html`${parts.map((part) => {
    const name = names[places.indexOf(part)];
    return name === undefined ? part : html`<bdi>${name}</bdi>`;
  })}`;
}

/** Returns a title about names that others chose. */
export function titleWith(say: (...names: string[]) => string, ...names: readonly string[]): Title {
  return { text: say(...names), heading: withNames(say, ...names) };
}

/** Returns the title of a page about one thing, which others named. */
export const titleOf = (name: string): Title => titleWith((only) => only, name);

/** Returns a list of names and values. Omits entries that are `undefined` or `false`. */
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

/** Returns a `<time>` element in UTC. A script converts it to the reader's time zone. */
export function time(at: Date | string): Html {
  const date = typeof at === "string" ? new Date(at) : at;
  return html`<time datetime=${date.toISOString()}>${UTC.format(date)} UTC</time>`;
}

const UTC_SECOND = new Intl.DateTimeFormat("en-GB", {
  dateStyle: "medium",
  timeStyle: "medium",
  timeZone: "UTC",
});

/** Returns a `<time>` element in UTC, with seconds. A script converts it to the reader's time zone. */
export function moment(at: string): Html {
  return html`<time datetime=${at} data-seconds>${UTC_SECOND.format(new Date(at))} UTC</time>`;
}

/** Returns the button with which the reader chooses between UTC and their own time zone for all pages. */
export function zoneSwitch({ listing }: Texts): Html {
  return html`<button type="button" class="quiet small" data-zone data-utc=${listing.inUtc} data-own=${listing.inOwnZone} hidden></button>`;
}

const UTC_DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" });

/** Returns a `<time>` element with the day in UTC. A script converts it to the reader's time zone. */
export function day(at: Date | string): Html {
  const date = typeof at === "string" ? new Date(at) : at;
  return html`<time datetime=${date.toISOString()} data-day>${UTC_DAY.format(date)}</time>`;
}

/** Returns a UTC day, such as `2026-01-31`, in words. Scripts do not convert it. */
export function utcDay(day: string): string {
  return UTC_DAY.format(new Date(`${day}T00:00:00Z`));
}

/** Returns a `<time>` element with a deadline's day. Within two days, it has the time of day too. */
export function deadline(at: string, now: Date): Html {
  return Date.parse(at) < addSeconds(now, SOON_SECONDS).getTime() ? time(at) : day(at);
}

/** Returns text without spaces, such as an address, that may be broken anywhere to fit a narrow column. */
export function long(text: string): Html {
  return html`<span class="long">${text}</span>`;
}

/** Returns one line of text with a copy button. `id` must be unique on the page. */
export function copyable({ listing }: Texts, { id, text }: { id: string; text: string }): Html {
  return html`<span class="copyable"><code id=${id}>${text}</code>
    <button type="button" class="quiet small" data-copy=${id} data-done=${listing.copied} hidden>${listing.copy}</button></span>`;
}

/** Returns several lines of text with a copy button. `id` must be unique on the page. */
export function copyBlock({ listing }: Texts, { id, text }: { id: string; text: string }): Html {
  return html`<div class="copy-block"><pre id=${id} tabindex="0">${text}</pre>
    <button type="button" class="quiet small" data-copy=${id} data-done=${listing.copied} hidden>${listing.copy}</button></div>`;
}

/** Returns a value as formatted JSON. */
export function jsonBlock(value: unknown): Html {
  return html`<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre>`;
}

/** Returns an object's name in its cluster, `namespace/name`. Omits unknown parts. */
export function objectName({ namespace, name }: { namespace: string | null; name: string | null }): string {
  return [namespace, name].filter((part) => part !== null).join("/");
}

import { type Html, html } from "../../html/html.ts";

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

import { type Html, html } from "../../html/html.ts";

/** How a state is meant: `good` as it should be, `warn` to be looked at, `bad` wrong, `plain` neither. */
export type Tone = "good" | "warn" | "bad" | "plain";

const MARKS: Record<Tone, string> = { good: "✓", warn: "!", bad: "✕", plain: "–" };

/** A state in words, with a mark and a colour of its own. */
export function badge(text: string, tone: Tone = "plain"): Html {
  return html`<span class=${`badge ${tone}`}><span aria-hidden="true">${MARKS[tone]} </span>${text}</span>`;
}

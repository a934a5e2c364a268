import type { DailyCounts } from "../../audit/daily_counts.ts";
import { type Html, html } from "../../html/html.ts";
import type { Texts } from "../texts/texts.ts";

const WIDTH = 640;
const HEIGHT = 180;
const BASE = HEIGHT - 1;
const RESULTS = ["allow", "deny", "indeterminate"] as const;

/** Decisions by day and result: bars for who sees them, and the same figures as a table. */
export function decisionsChart({ days }: DailyCounts, texts: Texts): Html {
  const words = texts.decisions;
  const most = Math.max(1, ...days.map((day) => day.allow + day.deny + day.indeterminate));
  const step = WIDTH / Math.max(1, days.length);
  return html`<figure class="chart">
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${words.chart}>
      <line class="axis" x1="0" x2=${WIDTH} y1=${BASE + 0.5} y2=${BASE + 0.5} />
      ${days.map((day, place) => bar(day, { x: place * step, width: step, most }))}
    </svg>
    <figcaption>
      <p class="ends"><span>${days[0]?.day}</span><span>${days.at(-1)?.day}</span></p>
      <ul class="legend">${RESULTS.map((result) => html`<li class=${result}>${words[result]}</li>`)}</ul>
    </figcaption>
  </figure>
  <details>
    <summary>${words.asTable}</summary>
    <div class="scroll"><table>
      <caption class="hidden-label">${words.chart}</caption>
      <thead><tr><th scope="col">${words.day}</th>${RESULTS.map((result) => html`<th scope="col">${words[result]}</th>`)}</tr></thead>
      <tbody>${days
        .toReversed()
        .map(
          (day) =>
            html`<tr><th scope="row">${day.day}</th>${RESULTS.map((result) => html`<td>${day[result]}</td>`)}</tr>`,
        )}</tbody>
    </table></div>
  </details>`;
}

type Day = DailyCounts["days"][number];

/** A day's results on top of each other. */
function bar(day: Day, { x, width, most }: { x: number; width: number; most: number }): Html[] {
  let top = BASE;
  return RESULTS.filter((result) => day[result] > 0).map((result) => {
    const height = Math.max(2, (day[result] / most) * (BASE - 8));
    top -= height;
    return html`<rect class=${result} x=${round(x + width * 0.15)} y=${round(top)} width=${round(width * 0.7)} height=${round(height)} />`;
  });
}

function round(number: number): number {
  return Math.round(number * 10) / 10;
}

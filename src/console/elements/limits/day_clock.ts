import { type Html, html } from "../../../html/html.ts";
import { constraintViolation } from "../../../protocol/constraints/constraints.ts";
import type { TimeWindow } from "../../../protocol/constraints/time_window.ts";
import type { Texts } from "../../texts/texts.ts";

const MIDDLE = 80;
const RADIUS = 54;
const MINUTES = 24 * 60;
const HOURS = [0, 3, 6, 9, 12, 15, 18, 21];

/**
 * A day as a circle, midnight on top, with a window of it. The words beside it say the same. Nothing for a
 * window that is none.
 */
export function dayClock({ limits }: Texts, window: TimeWindow): Html | undefined {
  if (constraintViolation(window) !== undefined) return undefined;
  const start = minuteOf(window.start);
  // The last minute is a part of it.
  const length = ((minuteOf(window.end) - start + MINUTES) % MINUTES) + 1;
  return html`<svg class="day-clock" viewBox=${`0 0 ${MIDDLE * 2} ${MIDDLE * 2}`} role="img" aria-label=${limits.clock}>
    <circle class="day" cx=${MIDDLE} cy=${MIDDLE} r=${RADIUS} />
    ${
      length >= MINUTES
        ? html`<circle class="window" cx=${MIDDLE} cy=${MIDDLE} r=${RADIUS} />`
        : html`<path class="window" d=${arc(start, length)} />`
    }
    ${HOURS.map((hour) => {
      const [x, y] = pointAt(hour * 60, RADIUS + 16);
      return html`<text x=${x} y=${y}>${hour}</text>`;
    })}
  </svg>`;
}

function arc(start: number, length: number): string {
  const isMost = length > MINUTES / 2 ? 1 : 0;
  const [from, to] = [pointAt(start, RADIUS), pointAt(start + length, RADIUS)];
  return `M${from.join(" ")}A${RADIUS} ${RADIUS} 0 ${isMost} 1 ${to.join(" ")}`;
}

function pointAt(minute: number, radius: number): [number, number] {
  const angle = (minute / MINUTES) * 2 * Math.PI;
  return [
    Math.round((MIDDLE + Math.sin(angle) * radius) * 10) / 10,
    Math.round((MIDDLE - Math.cos(angle) * radius) * 10) / 10,
  ];
}

function minuteOf(clock: string): number {
  return Number(clock.slice(0, 2)) * 60 + Number(clock.slice(3));
}

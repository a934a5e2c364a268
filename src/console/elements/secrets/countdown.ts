import { type Html, html } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";

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

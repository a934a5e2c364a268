import { type Html, html } from "../../../html/html.ts";
import { type Constraint, isKnownConstraint } from "../../../protocol/constraints/constraints.ts";
import type { Texts } from "../../texts/texts.ts";
import { dayClock } from "./day_clock.ts";
import { placeMap } from "./place_map.ts";

/** How many of a list are drawn: strangers make the list, and a map is large. */
const MOST_PICTURES = 4;

/** Constraints in words, each as the end of "only if". */
export function limitList(texts: Texts, constraints: readonly Constraint[]): Html {
  return html`<ul class="limits">${constraints.map(
    (constraint) => html`<li>${texts.limits.say(constraint)}</li>`,
  )}</ul>`;
}

/** The same; places and hours are drawn as well. */
export function drawnLimitList(texts: Texts, constraints: readonly Constraint[]): Html {
  const drawn = new Set(constraints.filter(canBeDrawn).slice(0, MOST_PICTURES));
  return html`<ul class="limits">${constraints.map(
    (constraint) =>
      html`<li>${texts.limits.say(constraint)}${drawn.has(constraint) && picture(texts, constraint)}</li>`,
  )}</ul>`;
}

function canBeDrawn({ type }: Constraint): boolean {
  return type === "time_window" || type.startsWith("geo_");
}

function picture(texts: Texts, constraint: Constraint): Html | undefined {
  if (!isKnownConstraint(constraint)) return undefined;
  switch (constraint.type) {
    case "time_window":
      return dayClock(texts, constraint);
    case "geo_circle":
    case "geo_polygon":
    case "geo_bbox":
      return placeMap(texts, constraint);
    default:
      return undefined;
  }
}

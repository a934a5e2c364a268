import { type Html, html, type Piece } from "../../../html/html.ts";
import type { PartAnswer } from "../../../installation/part_route.ts";
import type { Visit } from "../../core/page.ts";
import { badge } from "../../elements/badge.ts";
import { time } from "../../elements/time.ts";

type Figure = PartAnswer["figures"][number];

/** A part's figures, each with what is wrong with it and where to read on. */
export function figureRows(visit: Visit, { at, figures }: PartAnswer): Html {
  return html`<dl class="figures">${together(figures).map((figure) => row(visit, figure, at))}</dl>`;
}

/** Figures of several things, of which each is 0, are one figure. */
function together(figures: readonly Figure[]): Figure[] {
  const byName = Map.groupBy(figures, ({ name }) => name);
  return [...byName.values()].flatMap((alike) => {
    const [first] = alike;
    const isNothing = alike.every(({ value, state }) => value === 0 && state === "well");
    return first !== undefined && alike.length > 1 && isNothing ? [{ ...first, about: null }] : alike;
  });
}

function row(visit: Visit, figure: Figure, readAt: string): Html {
  const { service } = visit.texts;
  const { state, alert, runbook, at } = figure;
  return html`<div>
    <dt>${service.nameOf(figure)}</dt>
    <dd>${state !== "well" && html`${badge(service.states[state], state === "act" ? "bad" : "warn")} `}${shown(visit, figure)}</dd>
    ${at !== readAt && html`<dd class="note quiet">${service.asOf} ${time(at)}</dd>`}
    ${
      alert !== null &&
      html`<dd class="note">${service.alert} <code>${alert}</code>; ${service.readOn}: <code>${runbook}</code></dd>`
    }
  </div>`;
}

function shown({ texts }: Visit, figure: Figure): Piece {
  const { service } = texts;
  const { value, unit } = figure;
  if (value === null) return service.never;
  const word = service.wordOf(figure);
  if (word !== undefined) return word;
  if (typeof value === "string") return unit === "time" ? time(value) : html`<code>${value}</code>`;
  if (unit === "seconds") return service.lasting(value);
  return unit === "milliseconds" ? service.milliseconds(value) : value.toLocaleString("en");
}

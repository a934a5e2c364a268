import { type Html, html, type Piece } from "../../html/html.ts";
import { partNames } from "../../installation/installation.ts";
import type { PartAnswer, SuspendedAnswer } from "../../installation/routes.ts";
import { page, type Visit } from "../core/page.ts";
import { pager, staleNote, table } from "../elements/listing.ts";
import { badge, type Tone, time } from "../elements/values.ts";

type State = PartAnswer["state"];
type Figure = PartAnswer["figures"][number];

/** The states in the summary, most urgent first. */
const URGENT = ["act", "away", "look"] as const;
const TONES: Record<State, Tone> = { well: "good", look: "warn", act: "bad", away: "bad" };
const SUSPENDED = "/service/suspended";

/**
 * The page about the state of every part of the installation. Only service administrators see it, and never
 * while they act for an organization.
 */
export const servicePage = page<PartAnswer[]>({
  id: "service",
  path: "/console/service",
  about: "installation",
  operations: ["get_installation_part"],
  navigation: { order: 90, label: (texts) => texts.service.navigation },
  load: (visit) =>
    Promise.all(partNames.map((part) => visit.call("get_installation_part", { params: { part } }))),
  title: (visit) => visit.texts.service.title,
  render: (
    visit,
    parts,
  ) => html`<div id="parts" hx-get=${visit.at("/service")} hx-trigger="every 15s" hx-select="#parts"
    hx-swap="outerHTML">
    ${summary(visit, parts)}
    <div class="cards">${parts.map((part) => card(visit, part))}</div>
  </div>`,
});

function summary(visit: Visit, parts: readonly PartAnswer[]): Html {
  const { service } = visit.texts;
  const named = (state: State) =>
    parts.filter((each) => each.state === state).map(({ part }) => service.parts[part].title);
  const urgent = URGENT.filter((state) => named(state).length > 0);
  return html`${staleNote(visit.texts)}
    <ul class="states">${
      urgent.length === 0
        ? html`<li>${badge(service.summary.well, "good")}</li>`
        : urgent.map(
            (state) => html`<li>${badge(service.summary[state](named(state).join(", ")), TONES[state])}</li>`,
          )
    }</ul>
    <p class="quiet">${service.judged} <code>docs/observability.md</code>.</p>
    <p class="quiet">${service.asOf} ${time(visit.now)}. ${service.refreshed} <a href=${visit.at("/service")}>${service.again}</a></p>`;
}

function card(visit: Visit, { part, state, at, fault, figures }: PartAnswer): Html {
  const { service } = visit.texts;
  const { title, lead } = service.parts[part];
  const suspends = figures.some(({ about, value }) => about === "suspended" && value !== 0);
  return html`<section class="card" aria-labelledby=${`part-${part}`}>
    <h2 id=${`part-${part}`}>${title} ${badge(service.states[state], TONES[state])}</h2>
    <p class="quiet">${lead}</p>
    ${
      fault === null
        ? html`<dl class="figures">${figures.map((figure) => figureRow(visit, figure, at))}</dl>`
        : html`<p class="refusal">${service.noAnswer(fault)}</p>`
    }
    ${suspends && html`<p><a href=${visit.at(SUSPENDED)}>${service.suspended.link}</a></p>`}
  </section>`;
}

function figureRow(visit: Visit, figure: Figure, readAt: string): Html {
  const { service } = visit.texts;
  const { state, at } = figure;
  return html`<div>
    <dt>${service.nameOf(figure)}</dt>
    <dd>${state !== "well" && html`${badge(service.states[state], TONES[state])} `}${shown(visit, figure)}</dd>
    ${at !== readAt && html`<dd class="note quiet">${service.asOf} ${time(at)}</dd>`}
  </div>`;
}

function shown({ texts: { service } }: Visit, figure: Figure): Piece {
  const { value, unit } = figure;
  if (value === null) return service.never;
  const word = service.wordOf(figure);
  if (word !== undefined) return word;
  if (typeof value === "string") return unit === "time" ? time(value) : html`<code>${value}</code>`;
  return unit === "seconds" ? service.lasting(value) : value.toLocaleString("en");
}

/** The page with suspended callbacks and their owners' data. Only service administrators see it. */
export const suspendedPage = page<SuspendedAnswer>({
  id: "service_suspended",
  path: "/console/service/suspended",
  about: "installation",
  operations: ["list_suspended_endpoints"],
  load: (visit) => visit.call("list_suspended_endpoints", { query: { cursor: visit.query.cursor } }),
  title: (visit) => visit.texts.service.suspended.title,
  back: ({ at, texts }) => ({ to: at("/service"), text: texts.service.navigation }),
  render(visit, { items, next_cursor }) {
    const words = visit.texts.service.suspended;
    return html`<p class="lead">${words.lead}</p>
      <section class="card">${table({
        caption: words.caption,
        columns: [
          { label: words.host, cell: ({ host }) => host ?? words.noHost },
          { label: words.since, cell: ({ suspended_at }) => time(suspended_at) },
          { label: words.reason, cell: ({ reason }) => words.reasons[reason] },
          { label: words.held, cell: ({ held }) => words.atMost(held) },
          { label: words.account, cell: ({ account_id }) => html`<code>${account_id}</code>` },
          { label: words.connection, cell: ({ connection_id }) => html`<code>${connection_id}</code>` },
        ],
        items,
        empty: words.empty,
      })}</section>
      ${pager(visit, next_cursor)}`;
  },
});

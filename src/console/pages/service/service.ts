import { type Html, html } from "../../../html/html.ts";
import { partNames } from "../../../installation/part.ts";
import type { PartAnswer } from "../../../installation/part_route.ts";
import { page, type Visit } from "../../core/page.ts";
import { badge, type Tone } from "../../elements/badge.ts";
import { staleNote } from "../../elements/stale.ts";
import { time } from "../../elements/time.ts";
import { figureRows } from "./figures.ts";

type State = PartAnswer["state"];

/** What comes first in the summary comes first in what is to be done. */
const URGENT = ["act", "away", "look"] as const;
const TONES: Record<State, Tone> = { well: "good", look: "warn", act: "bad", away: "bad" };
const SUSPENDED = "/service/suspended";

/** How every part of the installation does, for who looks after it; never for an organization. */
export const servicePage = page<PartAnswer[]>({
  id: "service",
  path: "/console/service",
  access: "onboarded",
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

/** What is to be done, in one look. */
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
    <p class="quiet">${service.asOf} ${time(visit.now)}. ${service.refreshed} <a href=${visit.at("/service")}>${service.again}</a></p>`;
}

function card(visit: Visit, answer: PartAnswer): Html {
  const { service } = visit.texts;
  const { title, lead } = service.parts[answer.part];
  const suspends = answer.figures.some(({ about, value }) => about === "suspended" && value !== 0);
  return html`<section class="card" aria-labelledby=${`part-${answer.part}`}>
    <h2 id=${`part-${answer.part}`}>${title} ${badge(service.states[answer.state], TONES[answer.state])}</h2>
    <p class="quiet">${lead}</p>
    ${
      answer.fault === null
        ? figureRows(visit, answer)
        : html`<p class="refusal">${service.noAnswer(answer.fault)}</p>`
    }
    ${suspends && html`<p><a href=${visit.at(SUSPENDED)}>${service.suspended.link}</a></p>`}
  </section>`;
}

import type { HistoryAnswer } from "../../../audit/routes.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import { decisionBadge, reasonText } from "../../elements/decision.ts";
import { table } from "../../elements/listing.ts";
import { time } from "../../elements/time.ts";

type Event = HistoryAnswer["events"][number];
/** What was decided by a delegation lately, and the way to all of it. */
export function lastDecisions(visit: Visit, certId: string, events: readonly Event[]): Html {
  const words = visit.texts.delegation;
  return html`<section class="card"><h2>${words.decisions}</h2>
    ${table({
      caption: words.decisions,
      columns: [
        {
          label: words.when,
          cell: ({ event_id, occurred_at }) =>
            html`<a href=${visit.at(`/history/${event_id}`)}>${time(occurred_at)}</a>`,
        },
        { label: words.result, cell: ({ details }) => decisionBadge(visit.texts, details) },
        { label: words.scope, cell: ({ details }) => scopeOf(details) },
        { label: words.why, cell: ({ details }) => reasonText(visit.texts, details) },
      ],
      items: events,
      empty: words.noDecisions,
    })}
    ${events.length > 0 && html`<p class="actions"><a href=${visit.at("/history", { cert_id: certId })}>${words.allDecisions}</a></p>`}
  </section>`;
}

function scopeOf({ required_scope }: Event["details"]): Html | undefined {
  return required_scope === undefined ? undefined : html`<code>${required_scope}</code>`;
}

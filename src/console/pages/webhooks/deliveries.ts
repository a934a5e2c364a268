import { type Html, html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import { page, type Visit } from "../../core/page.ts";
import { momentField, queryMoments, selectField } from "../../elements/fields.ts";
import { filterForm, filtersOf, pager, staleNote, table } from "../../elements/listing.ts";
import { time, titleWith } from "../../elements/values.ts";
import { deliveryState, isMoving, lastResult } from "./attempts.ts";
import { type CallbackAnswer, loadCallback, partAddress, parts } from "./parts.ts";

const FILTER = "filter";

type Shown = { callback: CallbackAnswer; list: Answers["list_deliveries"] };

/** The page with past and pending deliveries of a connection. */
export const deliveriesPage = page<Shown>({
  id: "deliveries",
  path: "/console/connections/{connection_id}/deliveries",
  operations: ["list_deliveries", "get_callback"],
  load,
  title: ({ texts }, { callback }) => titleWith(texts.deliveries.title, callback.platform_name),
  render: (visit, { callback, list }) => html`${parts(visit, callback)}
    <p class="lead">${visit.texts.deliveries.lead}</p>
    ${filters(visit)}${listed(visit, list)}`,
});

async function load(visit: Visit): Promise<Shown> {
  const { connection_id = "" } = visit.params;
  const query = {
    ...filtersOf(visit, ["state", "event", "cursor"]),
    ...queryMoments(visit, { form: FILTER, names: ["since", "until"] }),
  };
  const [callback, list] = await Promise.all([
    loadCallback(visit),
    visit.call("list_deliveries", { params: { connection_id }, query }),
  ]);
  return { callback, list };
}

function filters(visit: Visit): Html {
  const words = visit.texts.deliveries;
  const { query } = visit;
  const choice = (name: string, label: string, labels: Record<string, string | undefined>) =>
    selectField(visit, {
      form: FILTER,
      name,
      label,
      value: query[name] ?? "",
      required: false,
      choices: [
        { value: "", label: words.any },
        ...Object.entries(labels).map(([value, text]) => ({ value, label: text ?? value })),
      ],
    });
  const moment = (name: string, label: string) =>
    momentField(visit, { form: FILTER, name, label, value: query[name] ?? "", required: false });
  return filterForm(visit, {
    label: words.narrow,
    content: html`${choice("state", words.state, words.states)}${choice("event", words.event, words.events)}
      ${moment("since", words.from)}${moment("until", words.before)}`,
  });
}

/** Returns the list of deliveries. A script updates it while a delivery is in progress. */
function listed(visit: Visit, { items, next_cursor }: Answers["list_deliveries"]): Html {
  const { texts, now } = visit;
  const words = texts.deliveries;
  const moves = items.some((delivery) => isMoving(now, delivery));
  return html`<section class="card" id="deliveries" hx-get=${moves && visit.here} hx-trigger=${moves && "every 5s"}
    hx-select="#deliveries" hx-swap="outerHTML">
    ${staleNote(visit.texts)}
    ${table({
      caption: words.caption,
      columns: [
        {
          label: words.event,
          cell: ({ delivery_id, event, connection_id, org_id }) =>
            html`<a href=${partAddress(visit, `/deliveries/${delivery_id}`)}>${words.deliveryTitle(event)}</a>${
              connection_id !== visit.params.connection_id &&
              html`<br /><span class="quiet">${words.customer} <code>${org_id}</code></span>`
            }`,
        },
        { label: words.state, cell: ({ state }) => deliveryState(texts, state) },
        { label: words.made, cell: ({ created_at }) => time(created_at) },
        { label: words.attempts, cell: ({ attempts }) => attempts },
        { label: words.last, cell: (delivery) => lastResult(texts, delivery) },
        {
          label: words.next,
          cell: ({ next_attempt_at }) => (next_attempt_at === null ? "–" : time(next_attempt_at)),
        },
      ],
      items,
      empty: words.empty,
    })}
    ${pager(visit, next_cursor)}</section>`;
}

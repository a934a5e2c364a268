import { addSeconds } from "../../../clock.ts";
import type { DailyCounts } from "../../../history/daily_counts.ts";
import type { NamedEntry } from "../../../history/history_entry.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { FiltersAnswer } from "../../../organizations/saved_filters.ts";
import { icon } from "../../core/icons.ts";
import { page, Unchanged, type Visit } from "../../core/page.ts";
import { decisionBadge, decisionsChart, reasonText } from "../../elements/decisions.ts";
import { faultNote, orFault, pager, staleNote, table } from "../../elements/listing.ts";
import { labelledScope } from "../../elements/scopes.ts";
import { moment, zoneSwitch } from "../../elements/values.ts";
import { loadCounts } from "../credit.ts";
import { askedFor, chosenFilter, historyFilter, isNarrowed, type Names, readyFilters } from "./filters.ts";
import { savedFilterForms, savedFilters } from "./saved_filters.ts";

const SHOWN = "25";
/** An event is stored at most this many seconds after its time. */
const SETTLED = 10;

type Listed = {
  events: NamedEntry[];
  next_cursor: string | null;
  /** The reason why the filters are invalid. */
  fault?: string;
};

type History = Listed & {
  names: Names;
  counts: DailyCounts | undefined;
  saved: FiltersAnswer["filters"];
};

/** The page with the history, newest first, with filters and live updates. */
export const historyPage = page<History>({
  id: "history",
  path: "/console/history",
  operations: [
    "export_audit_events",
    "list_platforms",
    "list_account_agents",
    "count_decisions",
    "list_history_filters",
    "change_history_filters",
  ],
  navigation: {
    order: 50,
    label: (texts) => texts.history.title,
    also: ["/console/receipts", "/console/activity"],
  },
  load,
  title: ({ texts }) => texts.history.title,
  render: (visit, history) => html`<p class="lead">${visit.texts.history.lead}</p>
    ${chart(visit, history.counts)}
    ${historyFilter(visit, history.names)}
    <div class="filters">${readyFilters(visit)}${savedFilters(visit, history.saved)}</div>
    ${history.fault === undefined ? list(visit, history) : faultNote(visit.texts, history.fault)}`,
  forms: savedFilterForms,
});

async function load(visit: Visit): Promise<History> {
  const asked = askedFor(visit);
  await refuseSeen(visit, asked);
  const { cursor, fresh } = visit.query;
  // The list requests its own updates every few seconds, and needs nothing else from the page.
  if (fresh !== undefined) return { ...(await listed(visit, asked)), ...NOTHING_ELSE };
  const [{ items: platforms }, { items: agents }, counts, { filters: saved }, events] = await Promise.all([
    visit.call("list_platforms", { query: { limit: "100" } }),
    visit.call("list_account_agents", { query: { limit: "100" } }),
    cursor === undefined ? loadCounts(visit) : undefined,
    visit.call("list_history_filters"),
    listed(visit, asked),
  ]);
  return { ...events, names: { platforms, agents }, counts, saved };
}

const NOTHING_ELSE = { names: { platforms: [], agents: [] }, counts: undefined, saved: [] };

function listed({ call, query }: Visit, asked: ReturnType<typeof askedFor>): Promise<Listed> {
  return call("export_audit_events", { query: { ...asked, limit: SHOWN, cursor: query.cursor } }).catch(
    orFault<Listed>({ events: [], next_cursor: null }),
  );
}

/**
 * Throws `Unchanged` if there are no new events. The page already shows `seen` events since the time `fresh`.
 */
async function refuseSeen({ query, call }: Visit, asked: ReturnType<typeof askedFor>): Promise<void> {
  const { fresh, seen } = query;
  if (fresh === undefined || seen === undefined) return;
  const since = asked.since !== undefined && asked.since > fresh ? asked.since : fresh;
  const { events } = await call("export_audit_events", {
    query: { ...asked, since, limit: String(Number(seen) + 1) },
  });
  if (events.length === Number(seen)) throw new Unchanged();
}

/** Returns the chart of recent decisions, regardless of the filters. Each day links to its decisions. */
function chart({ own, path, texts }: Visit, counts: DailyCounts | undefined): Html | undefined {
  if (counts === undefined) return undefined;
  const of = (day: string) => own(path, { from: day, to: day });
  return html`<section class="card"><h2>${texts.history.chart}</h2>
    <p class="quiet">${texts.history.chartLead}</p>${decisionsChart(counts, texts, of)}</section>`;
}

function list(visit: Visit, { events, next_cursor }: Listed): Html {
  const words = visit.texts.history;
  const isFirst = visit.query.cursor === undefined;
  const isLive = isFirst && !visit.query.to;
  return html`<section class="card">
    <p class="actions">${isLive && liveTail(visit)}${zoneSwitch(visit.texts)}</p>
    <div id="events" ...${isLive ? (tailOf(visit, events) as unknown as Piece) : undefined}>
      ${isLive && staleNote(visit.texts)}
      ${table({
        caption: words.table,
        columns: [
          { label: words.when, cell: (event) => when(visit, event) },
          { label: words.result, cell: (event) => decisionBadge(visit.texts, event.details) },
          {
            label: words.scope,
            cell: ({ details, scope_label }) =>
              details.required_scope && labelledScope(details.required_scope, scope_label),
          },
          { label: words.reason, cell: ({ details }) => reasonText(visit.texts, details) },
          {
            label: words.agent,
            cell: ({ agent_name, agent_id }) =>
              agent_name === null
                ? html`<span class="mono">${agent_id}</span>`
                : html`<bdi>${agent_name}</bdi>`,
          },
          { label: words.platform, cell: (event) => platformOf(visit, event) },
        ],
        items: events,
        empty:
          next_cursor !== null ? words.searchOn : isNarrowed(visit) || !isFirst ? words.nothing : words.empty,
      })}
      ${pager(visit, next_cursor)}
    </div>
  </section>
  ${events.length > 0 && files(visit)}
  <p class="actions"><a href=${visit.at("/receipts/check")}>${words.check}</a>
  ${visit.may("list_organization_activity") && html`<a href=${visit.at("/activity")}>${words.activity(visit.acting?.organization_name == null)}</a>`}</p>`;
}

function when({ at }: Visit, { event_id, occurred_at }: NamedEntry): Html {
  return html`<a href=${at(`/history/${event_id}`)} data-row=${event_id}>${moment(occurred_at)}</a>`;
}

function platformOf({ texts }: Visit, { platform_name, details }: NamedEntry): Html {
  if (details.verifier === undefined) return html`<bdi>${platform_name}</bdi>`;
  return html`<bdi>${details.verifier.platform_name}</bdi> <span class="quiet">${texts.history.elsewhere}</span>`;
}

/** Returns the controls of live updates. Without scripts, they are a link. */
function liveTail(visit: Visit): Html {
  const { live, newer } = visit.texts.history;
  return html`<a href=${visit.own(visit.path, chosenFilter(visit))} data-tail-link>${newer}</a>
    <button type="button" class="quiet small" data-tail="events" data-on=${live.on} data-off=${live.off} hidden>${live.on}</button>
    <span role="status" class="quiet" data-tail-news=${live.news}></span>`;
}

/** Returns the query with which an open list requests new events. */
function tailOf(visit: Visit, events: readonly NamedEntry[]) {
  const { now, own, path } = visit;
  const fresh = addSeconds(now, -SETTLED).toISOString();
  const seen = events.filter(({ occurred_at }) => occurred_at >= fresh).length;
  return {
    "hx-get": own(path, { ...chosenFilter(visit), fresh, seen: String(seen) }),
    "hx-trigger": "tail",
    "hx-select": "#events",
    "hx-swap": "outerHTML",
  };
}

function files(visit: Visit): Html {
  const { own, path, texts } = visit;
  const words = texts.history;
  const to = (format: string) => own(`${path}/export`, { ...chosenFilter(visit), format });
  return html`<section class="card"><h2>${words.keep}</h2><p>${words.keepLead}</p>
    <p class="actions"><a class="button quiet" href=${to("csv")}>${icon("download")}${words.csv}</a>
    <a class="button quiet" href=${to("ndjson")}>${icon("download")}${words.ndjson}</a></p></section>`;
}

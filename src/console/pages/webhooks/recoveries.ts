import { type Html, html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import { faultBeside, page, type Visit } from "../../core/page.ts";
import { checkField, momentField, queryMoments, sayWrong } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { pager, staleNote, table } from "../../elements/listing.ts";
import { badge, facts, type Tone, time, titleWith } from "../../elements/values.ts";
import { inactive } from "./delivery.ts";
import { type CallbackAnswer, isOpen, loadCallback, partAddress, parts } from "./parts.ts";

type Recoveries = Answers["list_recoveries"];
type Recovery = Recoveries["items"][number];
type Counted = Awaited<ReturnType<typeof countWish>>;
type Shown = { callback: CallbackAnswer; recoveries: Recoveries; wish?: Wish; counted?: Counted };

const TONES: Record<Recovery["state"], Tone> = { running: "plain", done: "good", cancelled: "warn" };

/** The page that sends the deliveries of a time range again, after a preview. */
export const recoveriesPage = page<Shown>({
  id: "recoveries",
  path: "/console/connections/{connection_id}/recoveries",
  operations: ["list_recoveries", "get_callback", "list_deliveries", "recover_deliveries"],
  load,
  title: ({ texts }, { callback }) => titleWith(texts.recoveries.title, callback.platform_name),
  render: (visit, shown) => html`${parts(visit, shown.callback)}
    <p class="lead">${visit.texts.recoveries.lead}</p>
    ${visit.may("recover_deliveries") && asking(visit, shown)}
    ${former(visit, shown.recoveries)}`,
  forms: {
    recover: {
      async submit(visit, fields) {
        const { connection_id = "" } = visit.params;
        const body = {
          since: fields.get("since"),
          until: fields.get("until"),
          states: fields.all("states"),
        };
        await visit.call("recover_deliveries", { params: { connection_id }, body, once: true });
        return { to: partAddress(visit, "/recoveries"), notice: "recovery_begun" };
      },
    },
  },
});

async function load(visit: Visit): Promise<Shown> {
  const { params, query } = visit;
  const { connection_id = "" } = params;
  const [callback, recoveries] = await Promise.all([
    loadCallback(visit),
    visit.call("list_recoveries", { params: { connection_id }, query: { cursor: query.cursor } }),
  ]);
  const wish = hasAsked(visit) && visit.may("recover_deliveries") ? readWish(visit) : undefined;
  if (wish === undefined) return { callback, recoveries };
  return { callback, recoveries, wish, counted: await countWish(visit, wish) };
}

function asking(visit: Visit, { callback, recoveries, wish, counted }: Shown): Html {
  const words = visit.texts.recoveries;
  if (!isOpen(callback)) {
    return html`<section class="card"><h2>${words.range}</h2>${inactive(visit)}</section>`;
  }
  const isOneOpen = recoveries.items.some(({ state }) => state === "running");
  return html`<section class="card"><h2>${words.range}</h2>
    <form method="get" action=${visit.own(visit.path)}>
      <input type="hidden" name="look" value="1" />
      ${momentField(visit, { form: WISH, name: "since", label: words.from, value: visit.query.since ?? "" })}
      ${momentField(visit, { form: WISH, name: "until", label: words.until, hint: words.untilHint, value: visit.query.until ?? "", required: false })}
      ${stateFields(visit)}
      <p class="actions"><button type="submit" class="quiet">${words.look}</button></p>
    </form></section>
    ${wish !== undefined && counted !== undefined && would(visit, { wish, counted, isOneOpen })}`;
}

function stateFields(visit: Visit): Html {
  const { recoveries: words, deliveries } = visit.texts;
  const fault = faultBeside(visit, { form: WISH, name: "states" });
  const isOn = (state: Recoverable) =>
    hasAsked(visit) ? visit.query[state] === "on" : state !== "delivered";
  return html`<fieldset class="field choices"><legend>${words.states}</legend>
    ${fault !== undefined && html`<p class="fault">${fault}</p>`}
    ${STATES.map((state) =>
      checkField(visit, {
        form: WISH,
        name: state,
        label: deliveries.states[state],
        hint: words.stateHints[state],
        value: isOn(state) ? "on" : "",
      }),
    )}</fieldset>`;
}

type Would = { wish: Wish; counted: Counted; isOneOpen: boolean };

function would(visit: Visit, { wish, counted, isOneOpen }: Would): Html {
  const { recoveries: words, deliveries } = visit.texts;
  const count = counted.reduce((sum, each) => sum + each.count, 0);
  const isMore = counted.some((each) => each.isMore);
  return html`<section class="card" id="would"><h2>${words.wouldTitle}</h2>
    <p class="figure">${words.would(count, isMore)}</p>
    ${facts([
      [words.rangeOf, range(visit, wish)],
      ...counted.map((each): [string, string] => [deliveries.states[each.state], words.each(each)]),
    ])}
    ${isOneOpen && html`<p class="notice">${words.open}</p>`}
    ${count > 0 && !isOneOpen && begin(visit, wish)}</section>`;
}

function begin(visit: Visit, { since, until, states }: Wish): Html {
  return form(visit, {
    name: "recover",
    content: states.map((state) => html`<input type="hidden" name="states" value=${state} />`),
    submit: visit.texts.recoveries.begin,
    once: true,
    hidden: { since: since.toISOString(), until: until.toISOString() },
  });
}

/** Returns the recoveries. A script updates the list. */
function former(visit: Visit, { items, next_cursor }: Recoveries): Html {
  const { recoveries: words, deliveries } = visit.texts;
  const runs = items.some(({ state }) => state === "running");
  return html`<section class="card" id="recoveries" hx-get=${runs && visit.here} hx-trigger=${runs && "every 3s"}
    hx-select="#recoveries" hx-swap="outerHTML">
    ${staleNote(visit.texts)}
    <h2>${words.former}</h2>
    ${table({
      caption: words.caption,
      columns: [
        { label: words.begun, cell: ({ created_at }) => time(created_at) },
        { label: words.state, cell: ({ state }) => badge(words.recoveryStates[state], TONES[state]) },
        { label: words.rangeOf, cell: (recovery) => range(visit, recovery) },
        {
          label: words.states,
          cell: ({ states }) => states.map((state) => deliveries.states[state]).join(", "),
        },
        { label: words.examined, cell: ({ examined }) => examined },
        { label: words.resent, cell: ({ resent }) => resent },
        { label: words.leftOut, cell: ({ left_out }) => left_out },
      ],
      items,
      empty: words.none,
    })}
    ${items.some(({ left_out }) => left_out > 0) && html`<p class="quiet">${words.leftOutHint}</p>`}
    ${pager(visit, next_cursor)}</section>`;
}

function range({ texts }: Visit, { since, until }: { since: Date | string; until: Date | string }): Html {
  return html`${time(since)} ${texts.recoveries.to} ${time(until)}`;
}

/** Name of the form for a time range. The names of the form's fields start with this name. */
const WISH = "wish";
/** States of deliveries that can be sent again. */
const STATES = ["failed", "rejected", "blocked", "delivered"] as const;
/** The preview counts at most this many deliveries of each state. */
const MOST_COUNTED = 100;

type Recoverable = (typeof STATES)[number];

type Wish = { since: Date; until: Date; states: Recoverable[] };

function hasAsked({ query }: Visit): boolean {
  return query.look !== undefined;
}

/** Returns the time range in the query. For an invalid range, shows errors at its fields. */
function readWish(visit: Visit): Wish | undefined {
  const { now, query, texts } = visit;
  const words = texts.recoveries;
  const moments = queryMoments(visit, { form: WISH, names: ["since", "until"] });
  const until = moments.until === undefined ? now : new Date(moments.until);
  const since = new Date(moments.since ?? "");
  const end = new Date(Math.min(until.getTime(), now.getTime()));
  const states = STATES.filter((state) => query[state] === "on");
  const isEmpty = moments.since !== undefined && since >= end;
  const faults: [string, string | undefined | false][] = [
    ["since", !query.since && words.noFrom],
    ["since", isEmpty && words.empty],
    ["states", states.length === 0 && words.noState],
  ];
  for (const [name, fault] of faults) if (fault) sayWrong(visit, { form: WISH, name }, fault);
  return visit.failure?.form !== WISH ? { since, until: end, states } : undefined;
}

/** Counts the deliveries of each selected state, up to one page. */
async function countWish({ call, params }: Visit, { since, until, states }: Wish) {
  const { connection_id = "" } = params;
  return Promise.all(
    states.map(async (state) => {
      const { items, next_cursor } = await call("list_deliveries", {
        params: { connection_id },
        query: {
          state,
          since: since.toISOString(),
          until: until.toISOString(),
          limit: String(MOST_COUNTED),
        },
      });
      return { state, count: items.length, isMore: next_cursor !== null };
    }),
  );
}

import { type Html, html } from "../../../html/html.ts";
import { FILTER_FIELDS } from "../../../organizations/saved_filters.ts";
import type { AccountAgentAnswer } from "../../../platforms/agents/account_agents_routes.ts";
import type { PlatformAnswer } from "../../../platforms/platform_answers.ts";
import type { CallInput } from "../../core/calls.ts";
import type { Visit } from "../../core/page.ts";
import { type Choice, selectField, textField } from "../../elements/fields.ts";
import { filterForm, filtersOf } from "../../elements/listing.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

type Query = NonNullable<CallInput["query"]>;

/**
 * Returns a history operation's query for the filter form's fields. Days are whole days in UTC. A proof that
 * was only presented has no decision, so the query excludes it unless the form asks for it.
 */
export function askedFor(visit: Visit): Query {
  const { from, to, result, ...rest } = chosenFilter(visit);
  const presented = result === "presented";
  return {
    ...rest,
    ...(presented ? { event_type: "proof.presented" } : { decision: result, decided: "true" }),
    ...daysOf(from, to),
  };
}

/** Returns a query for whole days in UTC. `to` is the last day. */
export function daysOf(from: string | undefined, to: string | undefined): Query {
  return { since: from && startOf(from, 0), until: to && startOf(to, 1) };
}

/** Returns when the day begins that is `after` days after `day`. The operation refuses an invalid `day`. */
function startOf(day: string, after: number): string {
  const start = DAY.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  return Number.isNaN(start) ? day : new Date(start + after * DAY_MS).toISOString();
}

/** Returns the filter of a page's query, without the parameters that do not belong to it. */
export function chosenFilter({ query }: Pick<Visit, "query">): Record<string, string | undefined> {
  return filtersOf({ query }, FILTER_FIELDS);
}

/** Returns whether any filter is set. */
export function isNarrowed(visit: Visit): boolean {
  return Object.values(chosenFilter(visit)).some((value) => value !== undefined);
}

type Name = (typeof FILTER_FIELDS)[number];

/** The maximum length of a field by its type. */
const MAX_LENGTHS: Record<string, number | undefined> = { text: 512, search: 100 };

/** Filter fields that are always visible. The other fields stay collapsed until one of them is used. */
const VISIBLE: readonly Name[] = ["search", "result"];
const FOLDED: readonly Name[] = FILTER_FIELDS.filter((name) => !VISIBLE.includes(name));

/** Names that the form offers. */
export type Names = { platforms: readonly PlatformAnswer[]; agents: readonly AccountAgentAnswer[] };

/** Returns the form that filters the history. */
export function historyFilter(visit: Visit, { platforms, agents }: Names): Html {
  const { history: words, decisions } = visit.texts;
  const field = (name: Name, label: string, more: { hint?: string; type?: string } = {}) =>
    textField(visit, {
      form: "filters",
      name,
      label,
      required: false,
      value: visit.query[name] ?? "",
      ...(more.hint !== undefined && { hint: more.hint }),
      attributes: { type: more.type ?? "text", maxlength: MAX_LENGTHS[more.type ?? "text"] },
    });
  const choice = (name: Name, label: string, choices: readonly Choice[]) =>
    selectField(visit, {
      form: "filters",
      name,
      label,
      required: false,
      value: visit.query[name] ?? "",
      choices: [{ value: "", label: words.any }, ...withChosen(choices, visit.query[name])],
    });
  return filterForm(visit, {
    label: words.filters,
    content: html`
      ${field("search", words.search, { type: "search", hint: words.searchHint })}
      ${choice("result", words.result, [
        ...(["allow", "deny", "indeterminate"] as const).map((value) => ({ value, label: decisions[value] })),
        { value: "presented", label: words.presented },
      ])}
      <details open=${FOLDED.some((name) => visit.query[name])}>
        <summary>${words.more}</summary>
        <div class="filters">
        ${field("from", words.from, { type: "date" })}
        ${field("to", words.to, { type: "date" })}
        ${choice(
          "agent_id",
          words.agent,
          agents.map(({ agent_id, name }) => ({ value: agent_id, label: name })),
        )}
        ${choice(
          "connection_id",
          words.platform,
          platforms.map(({ connection_id, name }) => ({ value: connection_id, label: name })),
        )}
        ${choice(
          "decision_reason",
          words.reason,
          Object.entries(decisions.reasons).map(([value, label = value]) => ({ value, label })),
        )}
        ${field("required_scope", words.scope)}
        ${field("cert_id", words.certId)}
        </div>
      </details>`,
  });
}

/** Returns links to lists that people often need. */
export function readyFilters(visit: Visit): Html {
  const { own, path, now, texts } = visit;
  const { ready, readyTitle } = texts.history;
  const dayBefore = (days: number) => new Date(now.getTime() - days * DAY_MS).toISOString().slice(0, 10);
  const [today, week] = [dayBefore(0), dayBefore(6)];
  return html`<nav class="actions" aria-label=${readyTitle}>
      <a href=${own(path, { from: today })}>${ready.today}</a>
      <a href=${own(path, { from: week, result: "deny" })}>${ready.denied}</a>
      <a href=${own(path, { from: week, result: "indeterminate" })}>${ready.undecided}</a>
    </nav>`;
}

/** Adds the chosen value if it is not one of the choices, such as the agent of another account. */
function withChosen(choices: readonly Choice[], chosen: string | undefined): readonly Choice[] {
  if (!chosen || choices.some(({ value }) => value === chosen)) return choices;
  return [...choices, { value: chosen, label: chosen }];
}

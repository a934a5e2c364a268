import type { RequestAnswer } from "../../../delegations/answers.ts";
import { type Html, html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { badge, type Tone } from "../../elements/badge.ts";
import { choicesOf, selectField } from "../../elements/forms/fields.ts";
import { filterForm, filtersOf, pager, table } from "../../elements/listing.ts";
import { scopeList } from "../../elements/scopes.ts";
import { time } from "../../elements/time.ts";

const TONES: Record<RequestAnswer["status"], Tone> = {
  pending: "warn",
  approved: "good",
  denied: "bad",
  expired: "plain",
  withdrawn: "plain",
};

type Listed = { items: RequestAnswer[]; next_cursor: string | null };

/** The account's requests, newest first. */
export const requestsPage = page<Listed>({
  id: "requests",
  path: "/console/requests",
  access: "onboarded",
  operations: ["list_delegation_requests"],
  navigation: { order: 10, label: (texts) => texts.navigation.requests },
  load: (visit) => visit.call("list_delegation_requests", { query: filtersOf(visit, ["status", "cursor"]) }),
  title: ({ texts }) => texts.requests.title,
  render(visit, { items, next_cursor }) {
    const { requests: words } = visit.texts;
    return html`<p class="lead">${words.lead}</p>
      ${filterForm(visit, {
        label: words.filter,
        content: selectField(visit, {
          form: "filter",
          name: "status",
          label: words.state,
          required: false,
          value: visit.query.status ?? "",
          choices: choicesOf({ "": words.anyState, ...words.states }),
        }),
      })}
      <section class="card">${table({
        caption: words.title,
        columns: [
          { label: words.agent, cell: (request) => agent(visit, request) },
          { label: words.scopes, cell: ({ requested_scope }) => scopeList(requested_scope) },
          { label: words.asked, cell: ({ created_at }) => time(created_at) },
          { label: words.state, cell: ({ status }) => badge(words.states[status], TONES[status]) },
        ],
        items,
        empty: words.empty,
      })}</section>
      ${pager(visit, next_cursor)}`;
  },
});

function agent({ at, texts }: Visit, { request_id, agent: { name }, platform }: RequestAnswer): Html {
  return html`<a href=${at(`/requests/${request_id}`)}>${name}</a> <span class="quiet">${texts.requests.of(platform.name)}</span>`;
}

import { type Html, html } from "../../html/html.ts";
import type { AccountAgentAnswer } from "../../platforms/agents/account_agents_routes.ts";
import { curlLine, quoted } from "../../proofs/try/curl.ts";
import { page, type Visit } from "../core/page.ts";
import { choicesOf, selectField, textField } from "../elements/fields.ts";
import { filterForm, filtersOf, pager, table } from "../elements/listing.ts";
import { copyBlock, time } from "../elements/values.ts";

type Listed = Awaited<ReturnType<typeof load>>;

const FILTERS = ["q", "state", "connection_id"] as const;

/** The page with the agents of all the account's platforms. It also shows how to create an agent. */
export const agentsPage = page<Listed>({
  id: "agents",
  path: "/console/agents",
  operations: ["list_account_agents", "list_platforms"],
  navigation: { order: 30, label: ({ agents }) => agents.title },
  load,
  title: ({ texts }) => texts.agents.title,
  render(visit, listed) {
    const { texts, query } = visit;
    const { agents: words } = texts;
    const isNarrowed = FILTERS.some((name) => query[name]) || query.cursor !== undefined;
    const isDeleted = query.state === "deleted";
    return html`<p class="lead">${words.lead}</p>
      ${filters(visit)}
      <section class="card">${table<AccountAgentAnswer>({
        caption: words.title,
        columns: [
          {
            label: words.agent,
            cell: ({ agent_id, name }) =>
              html`<a href=${visit.at(`/agents/${agent_id}`)}><bdi>${name}</bdi></a>`,
          },
          { label: words.platform, cell: ({ platform }) => html`<bdi>${platform.name}</bdi>` },
          { label: words.active, cell: ({ active_delegations }) => String(active_delegations) },
          {
            label: isDeleted ? words.deletedAt : words.made,
            cell: ({ created_at, disabled_at }) => time(disabled_at ?? created_at),
          },
        ],
        items: listed.items,
        empty: isNarrowed ? words.nothing : words.empty,
      })}</section>
      ${pager(visit, listed.next_cursor)}
      ${howMade(visit, listed)}`;
  },
});

async function load(visit: Visit) {
  const [listed, { items }] = await Promise.all([
    visit.call("list_account_agents", { query: filtersOf(visit, [...FILTERS, "cursor"]) }),
    visit.call("list_platforms", { query: { limit: "1" } }),
  ]);
  return { ...listed, platform: items[0] };
}

function filters(visit: Visit): Html {
  const { agents: words } = visit.texts;
  const { query } = visit;
  const of = { form: "filter", required: false };
  return filterForm(visit, {
    label: words.filter,
    content: html`
      ${textField(visit, {
        ...of,
        name: "q",
        label: words.search,
        hint: words.searchHint,
        value: query.q ?? "",
        attributes: { type: "search", maxlength: 100 },
      })}
      ${selectField(visit, {
        ...of,
        name: "state",
        label: words.state,
        value: query.state ?? "live",
        choices: choicesOf(words.states),
      })}
      ${query.connection_id && html`<input type="hidden" name="connection_id" value=${query.connection_id} /><p class="quiet">${words.ofConnection}</p>`}`,
  });
}

function howMade(visit: Visit, { platform }: Listed): Html {
  const { agents: words } = visit.texts;
  return html`<section class="card"><h2>${words.newTitle}</h2><p>${words.newLead}</p>
    ${
      platform === undefined
        ? html`<p>${words.noPlatform} <a href=${visit.at("/platforms")}>${words.toPlatforms}</a></p>`
        : html`<p>${words.newCall}</p>${copyBlock(visit.texts, { id: "new-agent", text: newAgentLine(visit, platform.connection_id) })}`
    }</section>`;
}

function newAgentLine({ outside }: Visit, connectionId: string): string {
  return curlLine({
    url: outside.url(`/v1/service/connections/${connectionId}/agents`),
    header: outside.header("X-Service-API-Key"),
    apiKey: "$API_KEY",
    posted: quoted(JSON.stringify({ name: "my agent", agent_type: "api_agent" })),
  });
}

import { type Html, html } from "../../html/html.ts";
import type { AccountAgentAnswer } from "../../platforms/agents/account_agents_routes.ts";
import type { Fields } from "../core/forms.ts";
import { type Outcome, page, type Visit } from "../core/page.ts";
import { choicesOf, selectField, textField } from "../elements/fields.ts";
import { agentCode } from "../elements/first_steps.ts";
import { form } from "../elements/form.ts";
import { filterForm, filtersOf, pager, searchField, table } from "../elements/listing.ts";
import { time } from "../elements/values.ts";

const FORM = "create";

type Listed = Awaited<ReturnType<typeof load>>;

const FILTERS = ["q", "state", "connection_id"] as const;

/** The page with the agents of all the account's platforms. It also creates an agent. */
export const agentsPage = page<Listed>({
  id: "agents",
  path: "/console/agents",
  operations: ["list_account_agents", "list_platforms", "create_account_agent"],
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
      ${creation(visit, listed)}`;
  },
  forms: { [FORM]: { submit: create } },
});

async function load(visit: Visit) {
  const [listed, { items }] = await Promise.all([
    visit.call("list_account_agents", { query: filtersOf(visit, [...FILTERS, "cursor"]) }),
    visit.call("list_platforms", { query: { limit: "100" } }),
  ]);
  return { ...listed, platforms: items };
}

function filters(visit: Visit): Html {
  const { agents: words } = visit.texts;
  const { query } = visit;
  const of = { form: "filter", required: false };
  return filterForm(visit, {
    label: words.filter,
    content: html`
      ${searchField(visit, { label: words.search, hint: words.searchHint })}
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

/** Returns the form that creates an agent, and the calls that do the same. */
function creation(visit: Visit, { platforms }: Listed): Html {
  const { agents: words } = visit.texts;
  const [newest] = platforms;
  if (newest === undefined) {
    return html`<section class="card"><h2>${words.newTitle}</h2>
      <p>${words.noPlatform} <a href=${visit.at("/platforms/new")}>${words.toPlatforms}</a></p></section>`;
  }
  return html`<section class="card"><h2>${words.newTitle}</h2><p>${words.newLead}</p>
    ${visit.may("create_account_agent") && creationForm(visit, platforms, newest.connection_id)}
    ${agentCode(visit, newest.connection_id)}</section>`;
}

function creationForm(visit: Visit, platforms: Listed["platforms"], connectionId: string): Html {
  const { agents: words } = visit.texts;
  return form(visit, {
    name: FORM,
    once: true,
    content: html`${textField(visit, {
      form: FORM,
      name: "name",
      label: words.name,
      hint: words.nameHint,
      attributes: { maxlength: 128, autocomplete: "off" },
    })}
    ${selectField(visit, {
      form: FORM,
      name: "agent_type",
      label: words.kind,
      value: "api_agent",
      choices: choicesOf(words.kinds),
    })}
    ${
      platforms.length > 1 &&
      selectField(visit, {
        form: FORM,
        name: "connection_id",
        label: words.platform,
        value: connectionId,
        choices: platforms.map(({ connection_id, name }) => ({ value: connection_id, label: name })),
      })
    }`,
    ...(platforms.length === 1 && { hidden: { connection_id: connectionId } }),
    submit: words.submitNew,
  });
}

async function create(visit: Visit, fields: Fields): Promise<Outcome> {
  const body = Object.fromEntries(
    ["name", "agent_type", "connection_id"].map((name) => [name, fields.get(name)]),
  );
  const { agent_id } = await visit.call("create_account_agent", { body, once: true });
  return { to: visit.at(`/agents/${agent_id}`), notice: "agent_made" };
}

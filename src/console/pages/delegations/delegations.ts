import { html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { delegationTable, soon } from "../../elements/delegations.ts";
import { choicesOf, selectField } from "../../elements/fields.ts";
import { filterForm, filtersOf, pager, searchField } from "../../elements/listing.ts";

type Listed = Awaited<ReturnType<typeof load>>;

/** The page with the account's delegations, with search and filters, sorted by age or expiry. */
export const delegationsPage = page<Listed>({
  id: "delegations",
  path: "/console/delegations",
  operations: ["list_delegations", "list_platforms", "revoke_delegation"],
  navigation: { order: 20, label: ({ delegations }) => delegations.title },
  load,
  title: ({ texts }) => texts.delegations.title,
  render(visit, { items, next_cursor, platforms }) {
    const { texts, query } = visit;
    const isNarrowed = FILTERS.some((name) => query[name]) || query.cursor !== undefined;
    return html`<p class="lead">${texts.delegations.lead}</p>
      ${filters(visit, platforms)}
      ${
        items.length > 1 &&
        visit.may("revoke_delegation") &&
        html`<p class="actions"><a class="button quiet" href=${visit.at("/delegations/revoke", toRevoke(query))}>${texts.revokeMany.link}</a></p>`
      }
      <section class="card">${delegationTable(
        visit,
        items,
        isNarrowed ? texts.delegations.nothing : texts.delegations.empty,
      )}</section>
      ${pager(visit, next_cursor)}`;
  },
});

const FILTERS = ["q", "state", "platform_id", "agent_id"] as const;

/** Returns the list's filters that the page *Revoke several* also has. */
function toRevoke({ q, agent_id, platform_id }: Visit["query"]): Visit["query"] {
  return { q: q || undefined, agent_id, platform_id: platform_id || undefined };
}

async function load(visit: Visit) {
  const { call } = visit;
  const { state, sort, ...rest } = filtersOf(visit, [...FILTERS, "sort", "cursor"]);
  const [listed, { items: platforms }] = await Promise.all([
    call("list_delegations", { query: { ...rest, ...(sort && { order: sort }), ...asked(visit, state) } }),
    call("list_platforms", { query: { limit: "100" } }),
  ]);
  return { ...listed, platforms };
}

function asked(visit: Visit, state: string | undefined): Record<string, string> {
  if (state === undefined) return {};
  if (state !== "ending") return { state };
  return { state: "active", order: "ending", expires_before: soon(visit).toISOString() };
}

function filters(visit: Visit, platforms: Listed["platforms"]) {
  const words = visit.texts.delegations;
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
        value: query.state ?? "",
        choices: choicesOf({ "": words.anyState, ...words.states }),
      })}
      ${
        platforms.length > 1 &&
        selectField(visit, {
          ...of,
          name: "platform_id",
          label: words.platform,
          value: query.platform_id ?? "",
          choices: [
            { value: "", label: words.anyPlatform },
            ...platforms.map(({ platform_id, name }) => ({ value: platform_id, label: name })),
          ],
        })
      }
      ${selectField(visit, {
        ...of,
        name: "sort",
        label: words.sort,
        value: query.state === "ending" ? "ending" : (query.sort ?? "newest"),
        choices: choicesOf(words.sorts),
      })}
      ${query.agent_id && html`<input type="hidden" name="agent_id" value=${query.agent_id} /><p class="quiet">${words.ofAgent}</p>`}`,
  });
}

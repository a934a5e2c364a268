import type { CustomerAnswer } from "../../../connect/customer_routes.ts";
import { type Html, html } from "../../../html/html.ts";
import type { KeyAnswer } from "../../../platforms/api_keys/key_routes.ts";
import type { PlatformAnswer } from "../../../platforms/platform_answers.ts";
import type { Fields } from "../../core/forms.ts";
import { type Outcome, page, type Visit } from "../../core/page.ts";
import { choicesOf, selectField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { filterForm, filtersOf, pager, searchField, table } from "../../elements/listing.ts";
import { scopeList } from "../../elements/scopes.ts";
import { onceOnly } from "../../elements/secrets.ts";
import { copyable, facts, time, titleOf, titleWith, withNames } from "../../elements/values.ts";
import { endCard, endKey, keyTable, listKeys } from "../platforms/api_keys.ts";
import { graceField, graceOf, newKey } from "../platforms/rotate_key.ts";
import { lastUse } from "./products.ts";

const FILTERS = ["q", "state", "org_id", "cursor"];

type Loaded<D> = { platform: PlatformAnswer } & D;

/** The page with the customers of a platform, for its publisher. */
export const customersPage = page<Loaded<{ items: CustomerAnswer[]; next_cursor: string | null }>>({
  id: "customers",
  path: "/console/platforms/{platform_id}/customers",
  operations: ["get_platform", "list_customers"],
  async load(visit) {
    const { call, params } = visit;
    const [platform, found] = await Promise.all([
      call("get_platform", { params }),
      call("list_customers", { params, query: filtersOf(visit, FILTERS) }),
    ]);
    return { platform, ...found };
  },
  title: ({ texts }, { platform }) => titleWith(texts.customers.title, platform.name),
  back: ({ at }, { platform }) => ({ to: at(`/platforms/${platform.platform_id}`), text: platform.name }),
  render(visit, { platform, items, next_cursor }) {
    const words = visit.texts.customers;
    const isNarrowed = FILTERS.some((name) => visit.query[name]);
    return html`<p class="lead">${words.lead}</p>
      ${filters(visit)}
      <section class="card">${table<CustomerAnswer>({
        caption: withNames(words.title, platform.name),
        items,
        empty: isNarrowed ? words.nothing : words.none,
        columns: [
          {
            label: words.name,
            cell: ({ connection_id, org_name }) =>
              html`<a href=${visit.at(`/platforms/${platform.platform_id}/customers/${connection_id}`)}><bdi>${org_name}</bdi></a>`,
          },
          { label: words.connected, cell: ({ created_at }) => time(created_at) },
          { label: words.delegations, cell: ({ delegations }) => delegations.toLocaleString("en") },
          { label: words.used, cell: (customer) => lastUse(visit, customer) },
        ],
      })}</section>
      ${pager(visit, next_cursor)}`;
  },
});

function filters(visit: Visit): Html {
  const words = visit.texts.customers;
  const { query } = visit;
  const of = { form: "filter", required: false };
  return filterForm(visit, {
    label: words.filter,
    content: html`${searchField(visit, { label: words.search })}
    ${selectField(visit, {
      ...of,
      name: "state",
      label: words.state,
      value: query.state ?? "active",
      choices: choicesOf(words.states),
    })}`,
  });
}

/** The page on which a publisher sees a customer with its API keys, and ends keys and the connection. */
export const customerPage = page<Loaded<{ customer: CustomerAnswer; keys: KeyAnswer[] }>>({
  id: "customer",
  path: "/console/platforms/{platform_id}/customers/{connection_id}",
  operations: [
    "get_platform",
    "get_customer",
    "rotate_customer_key",
    "remove_customer",
    "list_api_keys",
    "end_api_key",
  ],
  async load(visit) {
    const { call, params } = visit;
    const { platform_id = "" } = params;
    const [platform, customer] = await Promise.all([
      call("get_platform", { params: { platform_id } }),
      call("get_customer", { params }),
    ]);
    const isLive = customer.removed_at === null && platform.state !== "removing";
    return { platform, customer, keys: isLive ? await listKeys(visit) : [] };
  },
  title: (_, { customer }) => titleOf(customer.org_name),
  back: (visit, { platform }) => ({ to: listOf(visit), text: visit.texts.customers.title(platform.name) }),
  render: (visit, loaded) => html`${about(visit, loaded)}
    ${loaded.customer.removed_at === null && html`${keysOf(visit, loaded.keys)}${rotation(visit)}${ending(visit)}`}`,
  forms: {
    rotate: {
      submit: (visit, fields) =>
        onceOnly(() => rotate(visit, fields), {
          title: visit.texts.connections.onceTitle,
          explain: visit.texts.customers.onceMade,
          links: [backLink(visit)],
        }),
    },
    end_key: {
      submit: (visit, fields) => endKey(visit, fields, pathOf(visit)),
    },
    end: {
      async submit(visit) {
        await visit.call("remove_customer", { params: visit.params, once: true });
        return { to: listOf(visit), notice: "customer_ended" };
      },
    },
  },
});

function listOf({ at, params }: Visit): string {
  return at(`/platforms/${params.platform_id}/customers`);
}

function pathOf(visit: Visit): string {
  return `${listOf(visit)}/${visit.params.connection_id}`;
}

function backLink(visit: Visit): Html {
  return html`<a class="button" href=${pathOf(visit)}>${visit.texts.customers.back}</a>`;
}

function about(visit: Visit, { platform, customer }: Loaded<{ customer: CustomerAnswer }>): Html {
  const words = visit.texts.customers;
  return html`<section class="card"><h2>${words.about}</h2>${facts([
    [words.scopes, scopeList(customer.allowed_scopes, platform.scope_descriptions)],
    [words.connected, time(customer.created_at)],
    customer.removed_at !== null && [words.ended, time(customer.removed_at)],
    [words.used, lastUse(visit, customer)],
    [words.agents, customer.agents.toLocaleString("en")],
    [words.delegations, customer.delegations.toLocaleString("en")],
    [words.account, copyable(visit.texts, { id: "org-id", text: customer.org_id })],
    [words.connection, copyable(visit.texts, { id: "connection-id", text: customer.connection_id })],
  ])}
    <p class="quiet">${words.stored}</p></section>`;
}

/** The names of the customer's agents are not read, so the keys of agents have their ids. */
function keysOf(visit: Visit, keys: readonly KeyAnswer[]): Html | undefined {
  if (keys.length === 0) return undefined;
  const { customers: words, connections } = visit.texts;
  const narrow = keys.filter(({ role }) => role !== "full");
  return html`<section class="card"><h2>${connections.keys}</h2><p class="quiet">${words.keysLead}</p>
    ${keyTable(visit, [], keys)}</section>${endCard(visit, [], narrow)}`;
}

function rotation(visit: Visit): Html | undefined {
  if (!visit.may("rotate_customer_key")) return undefined;
  const words = visit.texts.customers;
  return html`<section class="card"><h2>${words.rotate}</h2><p>${words.rotateLead}</p>
    ${form(visit, {
      name: "rotate",
      once: true,
      content: graceField(visit, "rotate"),
      submit: visit.texts.connections.rotateSubmit,
      tone: "quiet",
    })}</section>`;
}

async function rotate(visit: Visit, fields: Fields): Promise<Outcome> {
  const { call, params, texts } = visit;
  const grace_seconds = graceOf(fields);
  const rotated = await call("rotate_customer_key", { params, body: { grace_seconds }, once: true });
  return {
    title: texts.connections.rotatedTitle,
    content: html`${newKey(visit, rotated, grace_seconds)}<p class="actions">${backLink(visit)}</p>`,
  };
}

function ending(visit: Visit): Html | undefined {
  if (!visit.may("remove_customer")) return undefined;
  const words = visit.texts.customers;
  return html`<section class="card"><h2>${words.end}</h2><p>${words.endLead}</p>
    ${form(visit, { name: "end", once: true, submit: words.end, tone: "danger" })}</section>`;
}

import type { CustomerAnswer } from "../../../connect/customer_routes.ts";
import { type Html, html } from "../../../html/html.ts";
import type { PlatformAnswer } from "../../../platforms/platform_answers.ts";
import type { Fields } from "../../core/forms.ts";
import { type Outcome, page, type Visit } from "../../core/page.ts";
import { choicesOf, selectField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { filterForm, filtersOf, pager, searchField, table } from "../../elements/listing.ts";
import { scopeList } from "../../elements/scopes.ts";
import { onceOnly } from "../../elements/secrets.ts";
import { copyable, facts, time } from "../../elements/values.ts";
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
  title: ({ texts }, { platform }) => texts.customers.title(platform.name),
  back: ({ at }, { platform }) => ({ to: at(`/platforms/${platform.platform_id}`), text: platform.name }),
  render(visit, { platform, items, next_cursor }) {
    const words = visit.texts.customers;
    const isNarrowed = FILTERS.some((name) => visit.query[name]);
    return html`<p class="lead">${words.lead}</p>
      ${filters(visit)}
      <section class="card">${table<CustomerAnswer>({
        caption: words.title(platform.name),
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

/** The page on which a publisher sees a customer, replaces the API key and ends the connection. */
export const customerPage = page<Loaded<{ customer: CustomerAnswer }>>({
  id: "customer",
  path: "/console/platforms/{platform_id}/customers/{connection_id}",
  operations: ["get_platform", "get_customer", "rotate_customer_key", "remove_customer"],
  async load({ call, params }) {
    const { platform_id = "" } = params;
    const [platform, customer] = await Promise.all([
      call("get_platform", { params: { platform_id } }),
      call("get_customer", { params }),
    ]);
    return { platform, customer };
  },
  title: (_, { customer }) => customer.org_name,
  back: (visit, { platform }) => ({ to: listOf(visit), text: visit.texts.customers.title(platform.name) }),
  render: (visit, loaded) => html`${about(visit, loaded)}
    ${loaded.customer.removed_at === null && html`${rotation(visit)}${ending(visit)}`}`,
  forms: {
    rotate: {
      submit: (visit, fields) =>
        onceOnly(() => rotate(visit, fields), {
          title: visit.texts.connections.onceTitle,
          explain: visit.texts.customers.onceMade,
          links: [backLink(visit)],
        }),
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

function backLink(visit: Visit): Html {
  const { at, params, texts } = visit;
  const path = `/platforms/${params.platform_id}/customers/${params.connection_id}`;
  return html`<a class="button" href=${at(path)}>${texts.customers.back}</a>`;
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

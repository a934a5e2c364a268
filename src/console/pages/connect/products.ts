import type { ProductAnswer } from "../../../connect/product_routes.ts";
import { type Html, html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { boxField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { pager, table } from "../../elements/listing.ts";
import { pickedScopes, type ScopeWords, scopeChoices, scopesInWords } from "../../elements/scopes.ts";
import { badge, facts, time, titleOf, withNames } from "../../elements/values.ts";

/** The page with the products of other accounts to which the account is connected. */
export const productsPage = page<Awaited<ReturnType<typeof list>>>({
  id: "products",
  path: "/console/products",
  operations: ["list_connected_products", "end_connected_products"],
  navigation: { order: 45, label: (texts) => texts.products.navigation, also: ["/console/proposals"] },
  load: list,
  title: ({ texts }) => texts.products.title,
  render(visit, { items, next_cursor }) {
    const words = visit.texts.products;
    return html`<p class="lead">${words.lead}</p>
      ${visit.account !== undefined && html`<p><a href=${visit.at("/proposals")}>${words.proposals}</a></p>`}
      <section class="card">${table<ProductAnswer>({
        caption: words.title,
        items,
        empty: words.none,
        columns: [
          {
            label: words.name,
            cell: ({ connection_id, platform, is_test }) =>
              html`<a href=${visit.at(`/products/${connection_id}`)}><bdi>${platform.name}</bdi></a>${is_test && html` ${badge(words.draft)}`}`,
          },
          { label: words.publisher, cell: (product) => publisherOf(product) },
          { label: words.delegations, cell: ({ delegations }) => delegations.toLocaleString("en") },
          { label: words.used, cell: (product) => lastUse(visit, product) },
        ],
      })}</section>
      ${pager(visit, next_cursor)}
      ${
        items.length > 0 &&
        visit.may("end_connected_products") &&
        html`<details class="card"><summary>${words.endAll}</summary><p>${words.endAllLead}</p>
        ${form(visit, { name: "end_all", once: true, submit: words.endAll, tone: "danger" })}</details>`
      }`;
  },
  forms: {
    end_all: {
      async submit({ call, at }) {
        await call("end_connected_products", { once: true });
        return { to: at("/products"), notice: "products_ended" };
      },
    },
  },
});

async function list({ call, query }: Visit) {
  return call("list_connected_products", { query: { cursor: query.cursor } });
}

type Loaded = { product: ProductAnswer; words: ScopeWords };

/** The page about one connected product. A customer narrows and ends the connection here. */
export const productPage = page<Loaded>({
  id: "product",
  path: "/console/products/{connection_id}",
  operations: ["get_connected_product", "list_scopes", "narrow_connected_product", "end_connected_product"],
  async load({ call, params }) {
    const [product, vocabulary] = await Promise.all([
      call("get_connected_product", { params }),
      call("list_scopes"),
    ]);
    const { platform, scope_descriptions: descriptions } = product;
    return { product, words: { vocabulary, platform: platform.name, descriptions } };
  },
  title: (_, { product }) => titleOf(product.platform.name),
  back: ({ at, texts }) => ({ to: at("/products"), text: texts.products.title }),
  render: (visit, loaded) =>
    html`${about(visit, loaded)}${scopes(visit, loaded)}${consent(visit, loaded)}${ending(visit)}`,
  forms: {
    narrow: {
      errorFields: { invalid_scopes: "allowed_scopes", ceiling_widened: "allowed_scopes" },
      async submit({ call, params, at }, fields) {
        const body = { allowed_scopes: pickedScopes(fields, "allowed_scopes") };
        await call("narrow_connected_product", { params, body, once: true });
        return { to: at(`/products/${params.connection_id}`), notice: "product_narrowed" };
      },
    },
    end: {
      async submit({ call, params, at }) {
        await call("end_connected_product", { params, once: true });
        return { to: at("/products"), notice: "product_ended" };
      },
    },
  },
});

/** Returns the verified domain and the name of a product's publisher. */
export function publisherOf({ publisher }: Pick<ProductAnswer, "publisher">): Html {
  const { domain, name } = publisher;
  return html`${domain !== null && html`<span class="verified"><span aria-hidden="true">✓ </span>${domain}</span> `}<bdi>${name}</bdi>`;
}

/** Returns when an API key of a customer connection was last used. */
export function lastUse({ texts }: Visit, { last_used_at }: Pick<ProductAnswer, "last_used_at">): Html {
  return last_used_at === null
    ? html`<span class="quiet">${texts.products.never}</span>`
    : time(last_used_at);
}

function about(visit: Visit, { product }: Loaded): Html {
  const words = visit.texts.products;
  const of = { connection_id: product.connection_id };
  return html`<section class="card"><h2>${words.about}</h2>${facts([
    [words.publisher, publisherOf(product)],
    [words.shownName, html`<bdi>${product.customer_name}</bdi>`],
    [words.connected, time(product.created_at)],
    [words.used, lastUse(visit, product)],
    [
      words.agents,
      html`${product.agents.toLocaleString("en")} <a href=${visit.at("/agents", of)}>${words.toAgents}</a>`,
    ],
    [
      words.delegations,
      html`${product.delegations.toLocaleString("en")} <a href=${visit.at("/delegations", { platform_id: product.platform.platform_id })}>${words.toDelegations}</a>`,
    ],
  ])}
    <p><a href=${visit.at("/history")}>${words.toHistory}</a></p></section>`;
}

function scopes(visit: Visit, { product, words: said }: Loaded): Html {
  const words = visit.texts.products;
  if (!visit.may("narrow_connected_product")) {
    return html`<section class="card"><h2>${words.scopes}</h2>${scopesInWords(visit.texts, said, product.allowed_scopes)}</section>`;
  }
  return html`<section class="card">${form(visit, {
    name: "narrow",
    once: true,
    content: boxField(visit, {
      form: "narrow",
      name: "allowed_scopes",
      label: words.scopes,
      hint: words.scopesHint,
      choices: scopeChoices(visit.texts, said, product.allowed_scopes),
      isTicked: () => true,
    }),
    submit: words.narrow,
    tone: "quiet",
  })}</section>`;
}

function consent(visit: Visit, { product, words: said }: Loaded): Html | undefined {
  const words = visit.texts.products;
  const read = product.consent;
  if (read === null) return undefined;
  const then = { ...said, platform: read.platform_name, descriptions: read.scope_descriptions };
  return html`<details class="card"><summary>${words.consent}</summary>
    <p>${read.by === null ? words.consentByUnknown : words.consentBy(read.by)} ${time(read.consented_at)}. ${publisherOf(read)}</p>
    ${read.approved_at !== null && html`<p>${words.approvedBy(read.approved_by)} ${time(read.approved_at)}.</p>`}
    ${read.account_label !== null && html`<p>${withNames(visit.texts.connect.label, read.platform_name)}: <q><bdi>${read.account_label}</bdi></q></p>`}
    <p>${words.offered}:</p>${scopesInWords(visit.texts, then, read.offered)}</details>`;
}

function ending(visit: Visit): Html | undefined {
  const words = visit.texts.products;
  if (!visit.may("end_connected_product")) return undefined;
  return html`<section class="card"><h2>${words.end}</h2><p>${words.endLead}</p>
    ${form(visit, { name: "end", once: true, submit: words.end, tone: "danger" })}</section>`;
}

import { ApiError } from "../../errors.ts";
import { type Html, html, type Piece } from "../../html/html.ts";
import { sentence } from "../core/forms.ts";
import type { Visit } from "../core/page.ts";
import type { Texts } from "../texts/texts.ts";
import { textField } from "./fields.ts";

/** A table column: its heading, and its cell for an item. The first column contains the row headings. */
type Column<Item> = { label: string; cell(item: Item): Piece };

type Table<Item> = {
  caption: Piece;
  columns: readonly Column<Item>[];
  items: readonly Item[];
  empty: Piece;
};

/**
 * Returns items as a table. Narrow screens show each item as a block with labeled cells. ARIA roles let
 * screen readers treat those blocks as a table.
 */
export function table<Item>({ caption, columns, items, empty }: Table<Item>): Html {
  if (items.length === 0) return html`<p class="quiet">${empty}</p>`;
  return html`<table class="listing" role="table">
    <caption class="hidden-label">${caption}</caption>
    <thead role="rowgroup"><tr role="row">${columns.map(({ label }) => html`<th scope="col" role="columnheader">${label}</th>`)}</tr></thead>
    <tbody role="rowgroup">${items.map((item) => row(columns, item))}</tbody>
  </table>`;
}

function row<Item>(columns: readonly Column<Item>[], item: Item): Html {
  return html`<tr role="row">${columns.map(({ label, cell }, place) =>
    place === 0
      ? html`<th scope="row" role="rowheader">${cell(item)}</th>`
      : html`<td role="cell" data-label=${label}>${cell(item)}</td>`,
  )}</tr>`;
}

/** Returns links to the next page of a list and to its first page. */
export function pager(visit: Visit, nextCursor: string | null): Html | undefined {
  const { query, texts, own, path } = visit;
  const { cursor, notice, ...filters } = query;
  if (cursor === undefined && nextCursor === null) return undefined;
  return html`<nav class="actions" aria-label=${texts.listing.pages}>
    ${cursor !== undefined && html`<a href=${own(path, filters)}>${texts.listing.first}</a>`}
    ${nextCursor !== null && html`<a class="button quiet" rel="next" href=${own(path, { ...filters, cursor: nextCursor })}>${texts.listing.next}</a>`}
  </nav>`;
}

/** Returns a form that filters a list. Its fields must have the names of the page's query parameters. */
export function filterForm(visit: Visit, { label, content }: { label: string; content: Piece }): Html {
  const { texts, own, path } = visit;
  return html`<form method="get" action=${own(path)} class="filters" role="search" aria-label=${label}>
    ${content}
    <p class="actions"><button type="submit" class="quiet">${texts.listing.filter}</button>
    <a href=${own(path)}>${texts.listing.all}</a></p>
  </form>`;
}

/** Returns the field of a filter form for the text `q`. */
export function searchField(visit: Visit, words: { label: string; hint?: string }): Html {
  return textField(visit, {
    ...words,
    form: "filter",
    name: "q",
    required: false,
    value: visit.query.q ?? "",
    attributes: { type: "search", maxlength: 100 },
  });
}

/** Returns the query parameters of a filter form. Omits empty fields. */
export function filtersOf(
  { query }: Pick<Visit, "query">,
  names: readonly string[],
): Record<string, string | undefined> {
  return Object.fromEntries(names.map((name) => [name, query[name] || undefined]));
}

/** Turns `not_found` into `undefined`, as a handler of a rejected call. Throws every other error again. */
export function unlessNotFound(error: unknown): undefined {
  if (error instanceof ApiError && error.code === "not_found") return undefined;
  throw error;
}

/** Returns a function that turns the refusal of a list's filters into `empty` and the reason. */
export function orFault<Empty extends object>(empty: Empty) {
  return (error: unknown): Empty & { fault: string } => {
    if (!(error instanceof ApiError) || error.code !== "invalid_request") throw error;
    return { ...empty, fault: error.message };
  };
}

/** Returns a note that says why a list's filters were refused. */
export function faultNote({ listing }: Texts, fault: string): Html {
  return html`<p class="refusal" role="alert">${listing.wrong} ${sentence(fault)}</p>`;
}

/** Returns a hidden note, which a script shows when part of the page could not be updated. */
export function staleNote({ listing }: Texts): Html {
  return html`<p class="refusal" role="status" data-stale hidden>${listing.stale}</p>`;
}

import { type Html, html } from "../../../html/html.ts";
import type { FiltersAnswer } from "../../../organizations/saved_filters.ts";
import type { Form, Visit } from "../../core/page.ts";
import { choiceField, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { chosenFilter } from "./filters.ts";

type Saved = FiltersAnswer["filters"];

const SAVE = "save_filter";
const DELETE = "delete_filter";

/** The forms with which a member saves the filter of the page, and deletes a saved one. */
export const savedFilterForms: Record<string, Form> = {
  [SAVE]: {
    errorFields: { filter_limit: "name" },
    async submit(visit, fields) {
      const body = { name: fields.get("name"), query: queryOf(visit) };
      await visit.call("change_history_filters", { body });
      return { to: hereWith(visit), notice: "filter_saved" };
    },
  },
  [DELETE]: {
    async submit(visit, fields) {
      await visit.call("change_history_filters", { body: { name: fields.get("name"), query: null } });
      return { to: hereWith(visit), notice: "filter_deleted" };
    },
  },
};

/** Returns the address of the history with the filter of this page, without the place in the list. */
function hereWith(visit: Visit): string {
  return visit.own(visit.path, chosenFilter(visit));
}

/** Returns the query of the filter of this page, or an empty text. */
function queryOf(visit: Visit): string {
  return hereWith(visit).split("?")[1] ?? "";
}

/** Returns links to the member's saved filters, and the forms that save and delete them. */
export function savedFilters(visit: Visit, saved: Saved): Html {
  const { saved: words } = visit.texts.history;
  const isOpen = (name: string) => visit.failure?.form === name;
  return html`${saved.length > 0 && links(visit, saved)}
    ${queryOf(visit) !== "" && html`<details open=${isOpen(SAVE)}><summary>${words.saveTitle}</summary>${saving(visit)}</details>`}
    ${saved.length > 0 && html`<details open=${isOpen(DELETE)}><summary>${words.deleteTitle}</summary>${deleting(visit, saved)}</details>`}`;
}

function links(visit: Visit, saved: Saved): Html {
  const { own, path } = visit;
  const { title } = visit.texts.history.saved;
  const current = queryOf(visit);
  return html`<nav class="actions" aria-label=${title}><span class="quiet">${title}</span>
    ${saved.map(({ name, query }) => {
      const to = own(path, chosenFilter({ query: Object.fromEntries(new URLSearchParams(query)) }));
      return html`<a href=${to} aria-current=${query === current && "true"}><bdi>${name}</bdi></a>`;
    })}
  </nav>`;
}

function saving(visit: Visit): Html {
  const { saved: words } = visit.texts.history;
  return form(visit, {
    name: SAVE,
    tone: "quiet",
    content: textField(visit, {
      form: SAVE,
      name: "name",
      label: words.name,
      hint: words.nameHint,
      attributes: { maxlength: 60, autocomplete: "off" },
    }),
    submit: words.save,
  });
}

function deleting(visit: Visit, saved: Saved): Html {
  const { saved: words } = visit.texts.history;
  return form(visit, {
    name: DELETE,
    tone: "danger",
    content: choiceField(visit, {
      form: DELETE,
      name: "name",
      label: words.which,
      choices: saved.map(({ name }) => ({ value: name, label: html`<bdi>${name}</bdi>` })),
    }),
    submit: words.delete,
  });
}

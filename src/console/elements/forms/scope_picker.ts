import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import type { Fields } from "../../core/forms/fields.ts";
import { faultBeside } from "../../core/forms/refusal.ts";
import type { Visit } from "../../core/page.ts";

type Vocabulary = Pick<Answers["list_scopes"], "scopes" | "sensitive" | "wildcards" | "words">;

type Picker = {
  form: string;
  name: string;
  label: string;
  hint: Piece;
  vocabulary: Vocabulary;
  /** Those that are chosen at first. */
  value?: readonly string[];
};

/**
 * Scopes to choose: those of the vocabulary as boxes, group by group, others as text, one in a line. All of
 * them have one name; {@link pickedScopes} reads them.
 */
export function scopePicker(visit: Visit, picker: Picker): Html {
  const { form, name, label, hint, vocabulary, value = [] } = picker;
  const { picker: words } = visit.texts;
  const failure = visit.failure?.form === form ? visit.failure : undefined;
  const chosen = new Set(failure === undefined ? value : pickedScopes(failure.typed, name));
  const groups = groupsOf(vocabulary);
  const known = new Set(groups.flatMap(({ scopes }) => scopes));
  const others = [...chosen].filter((scope) => !known.has(scope));
  const fault = faultBeside(visit, { form, name });
  const id = `${form}-${name}`;
  return html`<fieldset class="field picker">
    <legend>${label}</legend>
    <p class="hint" id=${`${id}-hint`}>${hint}</p>
    ${fault && html`<p class="fault" id=${`${id}-fault`}>${fault}</p>`}
    <div class="groups">${groups.map(({ group, scopes }) => {
      const ticked = scopes.filter((scope) => chosen.has(scope)).length;
      return html`<details open=${ticked > 0}><summary>${group}${ticked > 0 && ` (${words.chosen(ticked)})`}</summary>
        <div>${scopes.map((scope) => box(scope))}</div></details>`;
    })}</div>
    <label for=${id}>${words.others}</label>
    <p class="hint" id=${`${id}-form`}>${words.othersHint}</p>
    <textarea id=${id} name=${name} rows="3" spellcheck="false" aria-invalid=${fault !== undefined && "true"}
      aria-describedby=${[`${id}-form`, fault && `${id}-fault`].filter(Boolean).join(" ")}
      autofocus=${fault !== undefined}>${`\n${others.join("\n")}`}</textarea>
  </fieldset>`;

  function box(scope: string): Html {
    const note = vocabulary.sensitive.includes(scope) ? words.sensitive : scope.endsWith(":*") && words.all;
    const said = Object.hasOwn(vocabulary.words, scope) && vocabulary.words[scope];
    return html`<label class="choice"><input type="checkbox" name=${name} value=${scope} checked=${chosen.has(scope)} />
      <span>${said}<span class="hint"><code>${scope}</code>${note && ` ${note}`}</span></span></label>`;
  }
}

/** The scopes that were picked, each once. */
export function pickedScopes(fields: Fields, name: string): string[] {
  const picked = fields.all(name).flatMap((text) => text.split(/[\s,]+/));
  return [...new Set(picked.filter((scope) => scope !== ""))];
}

/** The vocabulary by what is before the last colon, each group's wildcard first. */
function groupsOf({ scopes, wildcards }: Vocabulary): { group: string; scopes: string[] }[] {
  const all = [...Object.keys(wildcards), ...scopes];
  const groups = Map.groupBy(all, (scope) => scope.slice(0, scope.lastIndexOf(":")));
  return [...groups].map(([group, members]) => ({ group, scopes: members })).sort(byName);
}

function byName(one: { group: string }, other: { group: string }): number {
  return one.group < other.group ? -1 : 1;
}

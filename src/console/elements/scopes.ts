import type { ScopesAnswer } from "../../delegations/scopes_route.ts";
import { type Html, html, type Piece } from "../../html/html.ts";
import type { ScopeDescriptions } from "../../input/platform_fields.ts";
import { byRisk } from "../../protocol/documents/scope_risk.ts";
import type { Answers } from "../core/calls.ts";
import type { Fields } from "../core/forms.ts";
import { faultBeside, type Visit } from "../core/page.ts";
import type { Texts } from "../texts/texts.ts";
import type { Choice } from "./fields.ts";
import { badge, withNames } from "./values.ts";

/** Returns a list that shows scopes next to each other, with the labels of their platform. */
export function scopeList(scopes: readonly string[], descriptions: ScopeDescriptions = {}): Html {
  return html`<ul class="scopes">${scopes.map(
    (scope) => html`<li>${labelledScope(scope, labelOf({ scope_descriptions: descriptions }, scope))}</li>`,
  )}</ul>`;
}

/** Returns the platform's label for a scope, or `undefined` if it has none. */
export function labelOf(
  { scope_descriptions }: { scope_descriptions: ScopeDescriptions },
  scope: string,
): string | undefined {
  return Object.hasOwn(scope_descriptions, scope) ? scope_descriptions[scope]?.label : undefined;
}

/** Returns a scope and, if there is one, its platform's label. */
export function labelledScope(scope: string, label: string | null | undefined): Html {
  return html`<code>${scope}</code>${label != null && html` <bdi class="quiet">${label}</bdi>`}`;
}

/** `platform` is the name of the platform that defines the custom scopes. `descriptions` are its words. */
export type ScopeWords = { vocabulary: ScopesAnswer; platform: string; descriptions: ScopeDescriptions };

function descriptionOf({ descriptions }: ScopeWords, scope: string) {
  return Object.hasOwn(descriptions, scope) ? descriptions[scope] : undefined;
}

/** Returns what a scope allows. For a custom scope, returns the platform's label, or names the platform. */
function scopeWords({ scopes }: Texts, words: ScopeWords, scope: string): Piece {
  const { vocabulary, platform } = words;
  if (Object.hasOwn(vocabulary.words, scope)) return vocabulary.words[scope];
  const described = descriptionOf(words, scope);
  return described === undefined
    ? withNames((name = "") => scopes.custom(scope, name), platform)
    : html`<bdi>${described.label}</bdi>`;
}

/** Returns what a platform says about its custom scope, marked as the platform's words. */
function platformSays({ scopes }: Texts, words: ScopeWords, scope: string): Html | undefined {
  const described = descriptionOf(words, scope);
  return (
    described && html`<bdi>${words.platform}</bdi> ${scopes.says} <q><bdi>${described.description}</bdi></q>`
  );
}

/** Returns a scope, the scopes that it grants if it is a wildcard, and a badge if it is sensitive. */
function scopeDetail(texts: Texts, words: ScopeWords, scope: string): Html {
  const { scopes } = texts;
  const { wildcards } = words.vocabulary;
  const granted = Object.hasOwn(wildcards, scope) ? wildcards[scope] : undefined;
  const says = platformSays(texts, words, scope);
  return html`<code>${scope}</code>${granted !== undefined && ` ${scopes.grants(granted)}`}${
    isSensitive(words, scope) && html` ${badge(scopes.sensitive, "warn")}`
  }${says && html` ${says}`}`;
}

/** Returns scopes as choices, described in plain words. */
export function scopeChoices(texts: Texts, words: ScopeWords, scopes: readonly string[]): Choice[] {
  return scopes.map((scope) => ({
    value: scope,
    label: scopeWords(texts, words, scope),
    hint: scopeDetail(texts, words, scope),
  }));
}

/**
 * Returns scopes as choices for a person who decides. Each choice describes a scope in words, and says what
 * the scope does not include. Sensitive scopes come last.
 */
export function consentChoices(texts: Texts, words: ScopeWords, scopes: readonly string[]): Choice[] {
  const inOrder = scopes.toSorted((one, other) => sensitivity(words, one) - sensitivity(words, other));
  return inOrder.map((scope) => ({
    value: scope,
    label: scopeWords(texts, words, scope),
    hint: consentHint(texts, words, scope),
  }));
}

function sensitivity(words: ScopeWords, scope: string): number {
  return isSensitive(words, scope) ? 1 : 0;
}

/** Returns whether a person must choose this scope themselves: by the vocabulary, or as its platform says. */
export function isSensitive(words: ScopeWords, scope: string): boolean {
  return words.vocabulary.sensitive.includes(scope) || descriptionOf(words, scope)?.sensitive === true;
}

function consentHint(texts: Texts, words: ScopeWords, scope: string): Piece {
  const { sensitive, tick, excludes } = texts.scopes;
  const says = platformSays(texts, words, scope);
  if (isSensitive(words, scope)) return html`${badge(sensitive, "warn")} ${tick}${says && html` ${says}`}`;
  return says ?? (Object.hasOwn(excludes, scope) ? excludes[scope] : undefined);
}

/**
 * Returns a text of strangers for use in a sentence. It cannot end its quotes or reverse the rest of the
 * text.
 */
function isolated(text: string): string {
  return `\u2068${text.replaceAll(/[“”„‟«»"]/g, "'")}\u2069`;
}

/** Returns what some scopes allow, as parts of a sentence. Those with the highest risk come first. */
export function scopePhrases(texts: Texts, words: ScopeWords, scopes: readonly string[]): string[] {
  return byRisk(scopes, (scope) => isSensitive(words, scope)).map((scope) => {
    const said = Object.hasOwn(words.vocabulary.words, scope) ? words.vocabulary.words[scope] : undefined;
    if (said !== undefined) return said.charAt(0).toLowerCase() + said.slice(1);
    const described = descriptionOf(words, scope);
    return described === undefined
      ? texts.scopes.does(scope, words.platform)
      : texts.scopes.doesLabelled(isolated(described.label), words.platform);
  });
}

/** Returns a list of scopes, described in plain words. */
export function scopesInWords(texts: Texts, words: ScopeWords, scopes: readonly string[]): Html {
  return html`<ul class="said-scopes">${scopes.map(
    (scope) => html`<li>${scopeWords(texts, words, scope)}${" "}
      <span class="quiet">${scopeDetail(texts, words, scope)}</span></li>`,
  )}</ul>`;
}

type Vocabulary = Pick<Answers["list_scopes"], "scopes" | "sensitive" | "wildcards" | "words">;

type Picker = {
  form: string;
  name: string;
  label: string;
  hint: Piece;
  vocabulary: Vocabulary;
  /** The initially selected scopes. */
  value?: readonly string[];
};

/**
 * Returns a field to choose scopes. All its inputs have the same name, and {@link pickedScopes} reads them.
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
    <p class="scripted"><label for=${`${id}-search`}>${words.search}</label>
      <input type="search" id=${`${id}-search`} data-narrows=${`${id}-groups`} autocomplete="off" /></p>
    <div class="groups" id=${`${id}-groups`}>${groups.map(({ group, scopes }) => {
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

/** Returns the chosen scopes without duplicates. */
export function pickedScopes(fields: Fields, name: string): string[] {
  const picked = fields.all(name).flatMap((text) => text.split(/[\s,]+/));
  return [...new Set(picked.filter((scope) => scope !== ""))];
}

/** Groups scopes by the part before the last colon. Each group starts with its wildcard. */
function groupsOf({ scopes, wildcards }: Vocabulary): { group: string; scopes: string[] }[] {
  const all = [...Object.keys(wildcards), ...scopes];
  const groups = Map.groupBy(all, (scope) => scope.slice(0, scope.lastIndexOf(":")));
  return [...groups].map(([group, members]) => ({ group, scopes: members })).sort(byName);
}

function byName(one: { group: string }, other: { group: string }): number {
  return one.group < other.group ? -1 : 1;
}

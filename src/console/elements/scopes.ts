import type { ScopesAnswer } from "../../delegations/scopes_route.ts";
import { type Html, html } from "../../html/html.ts";
import type { Texts } from "../texts/texts.ts";
import { badge } from "./badge.ts";
import type { Choice } from "./forms/fields.ts";

/** Scopes side by side. */
export function scopeList(scopes: readonly string[]): Html {
  return html`<ul class="scopes">${scopes.map((scope) => html`<li><code>${scope}</code></li>`)}</ul>`;
}

/** What scopes are told by: the vocabulary, and whose custom ones they are. */
export type ScopeWords = { vocabulary: ScopesAnswer; platform: string };

/** What an agent may do by a scope. A custom one is shown as it is, with whose it is. */
function scopeWords({ scopes }: Texts, { vocabulary, platform }: ScopeWords, scope: string): string {
  const words = Object.hasOwn(vocabulary.words, scope) ? vocabulary.words[scope] : undefined;
  return words ?? scopes.custom(scope, platform);
}

/** The scope itself, what a wildcard grants, and whether it is sensitive. */
function scopeDetail({ scopes }: Texts, { vocabulary }: ScopeWords, scope: string): Html {
  const granted = Object.hasOwn(vocabulary.wildcards, scope) ? vocabulary.wildcards[scope] : undefined;
  return html`<code>${scope}</code>${granted !== undefined && ` ${scopes.grants(granted)}`}${
    vocabulary.sensitive.includes(scope) && html` ${badge(scopes.sensitive, "warn")}`
  }`;
}

/** Scopes to choose from, in plain words. */
export function scopeChoices(texts: Texts, words: ScopeWords, scopes: readonly string[]): Choice[] {
  return scopes.map((scope) => ({
    value: scope,
    label: scopeWords(texts, words, scope),
    hint: scopeDetail(texts, words, scope),
  }));
}

/** Scopes below each other, in plain words. */
export function scopesInWords(texts: Texts, words: ScopeWords, scopes: readonly string[]): Html {
  return html`<ul class="said-scopes">${scopes.map(
    (scope) => html`<li>${scopeWords(texts, words, scope)}${" "}
      <span class="quiet">${scopeDetail(texts, words, scope)}</span></li>`,
  )}</ul>`;
}

import { type Html, html } from "../../html/html.ts";
import type { Constraint } from "../../protocol/constraints/constraints.ts";
import type { Texts } from "../texts/texts.ts";
import { detailedLimitList } from "./limits.ts";
import { type ScopeWords, scopesInWords } from "./scopes.ts";
import { time } from "./time.ts";

/** What a certificate lends, and to whom. */
export type Lent = {
  agent: string;
  scopes: readonly string[];
  constraints: readonly unknown[];
  /** `null`: until somebody revokes it. */
  expiresAt: string | null;
};

/** What a certificate says, in sentences. */
export function grant(
  texts: Texts,
  words: ScopeWords,
  { agent, scopes, constraints, expiresAt }: Lent,
): Html {
  const { request } = texts;
  return html`<div class="grant">
    <p><strong>${agent}</strong> ${request.may(words.platform)}</p>
    ${scopesInWords(texts, words, scopes)}
    ${constraints.length > 0 && html`<p>${request.onlyIf}</p>${detailedLimitList(texts, constraints as Constraint[])}`}
    <p>${expiresAt === null ? request.forever : html`${request.until} ${time(expiresAt)}.`}</p>
  </div>`;
}

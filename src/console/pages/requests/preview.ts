import type { RequestAnswer } from "../../../delegations/delegation_answers.ts";
import type { PreviewAnswer } from "../../../delegations/requests/preview_route.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Constraint } from "../../../protocol/constraints/constraints.ts";
import { lacksAmount } from "../../../protocol/documents/scope_risk.ts";
import type { Visit } from "../../core/page.ts";
import { grant } from "../../elements/delegations.ts";
import { detailedLimitList } from "../../elements/limits.ts";
import { type ScopeWords, scopePhrases } from "../../elements/scopes.ts";
import { deadline, withNames } from "../../elements/values.ts";
import type { Texts } from "../../texts/texts.ts";
import { asker } from "./asker.ts";
import { quoted } from "./separate.ts";

/** Maximum length of a string in the preview, in characters. */
const LONGEST = 64;

/** A pending request, with the data needed for a decision. */
export type Waiting = { request: RequestAnswer; words: ScopeWords; preview: Preview };

/**
 * The content of the future certificate, and of a second one without the limit on the amount, or why they
 * cannot be created.
 */
export type Preview = { said: PreviewAnswer; separate?: PreviewAnswer } | { fault: string };

/** Returns the content of the certificate as sentences. */
function lent({ texts }: Visit, { request, words }: Waiting, said: PreviewAnswer): Html {
  const { approved_scope: scopes, constraints, expires_at: expiresAt } = said;
  return grant(texts, words, { agent: request.agent.name, scopes, constraints, expiresAt });
}

/** Returns when the authority would end. */
export function endText({ texts: { request: words }, now }: Visit, preview: Preview): Piece {
  if (!("said" in preview)) return words.endUnknown;
  const { expires_at: at } = preview.said;
  if (at === null) return html`<strong>${words.endsNever}</strong>`;
  return html`<strong>${words.endsOn} ${deadline(at, now)}</strong>${" "}<span class="quiet">${words.endAny}</span>`;
}

/** Returns how many of the requested permissions the approval would grant. */
export function countText({ texts: { request: words } }: Visit, { preview, request }: Waiting): string {
  const all = request.requested_scope.length;
  if (!("said" in preview)) return "";
  const ticked = allScopes(preview).length;
  return all === 1 && ticked === 1 ? "" : words.approveSome(ticked, all);
}

function allScopes({ said, separate }: Exclude<Preview, { fault: string }>): string[] {
  return [...said.approved_scope, ...(separate?.approved_scope ?? [])];
}

/** Permissions that the sentence about the risk names. It gives the number of all others. */
const NAMED = 3;

/**
 * Returns what could go wrong with the approval. The preview's button comes first in the form, so that the
 * Enter key updates this text and does not approve. With scripts, each change in the form updates it too.
 *
 * The element that receives htmx responses is never replaced itself: htmx drops a response if its target was
 * removed in the meantime.
 */
export function risk(visit: Visit, waiting: Waiting): Html {
  const words = visit.texts.request;
  return html`<section class="risk" aria-labelledby="risk-title"><h2 id="risk-title">${words.risk}</h2>
    <div role="status" id="preview"><div id="preview-said">${riskText(visit, waiting)}</div></div>
    <p class="actions unscripted"><button type="submit" class="quiet small" name="show" value="preview" formnovalidate hx-post=${visit.here}
      hx-trigger="click, change from:#form-approve delay:200ms" hx-target="#preview" hx-select="#preview-said" hx-swap="innerHTML"
      hx-select-oob="#preview-end:innerHTML,#preview-count:innerHTML,#preview-exact:innerHTML"
      hx-status:400="swap:innerHTML" hx-status:4xx="swap:none" hx-status:5xx="swap:none" hx-sync="this:queue last">${words.previewButton}</button></p>
  </section>`;
}

/** Returns a note for each published SDK that would refuse the certificate. */
function sdkNotes({ texts }: Visit, { warnings }: PreviewAnswer): Html[] {
  const sdks = new Set(warnings.map(({ sdk }) => sdk));
  return [...sdks].map((sdk) => html`<p class="hint">${texts.request.sdks[sdk]}</p>`);
}

function riskText({ texts }: Visit, { preview, request, words: said }: Waiting): Html {
  const words = texts.request;
  if (!("said" in preview)) return html`<p class="refusal">${words.notYet} ${preview.fault}</p>`;
  const { constraints } = preview.said;
  const separate = preview.separate?.approved_scope ?? [];
  const isRated = constraints.some(({ type }) => type === "max_rate");
  const added = (constraints as Constraint[]).slice(request.constraints.length);
  const phrases = scopePhrases(texts, said, allScopes(preview));
  const more = phrases.length - NAMED;
  const named = [...phrases.slice(0, NAMED), ...(more > 0 ? [words.more(more)] : [])];
  const what = new Intl.ListFormat(texts.language).format(named);
  const risks = (agent: string) => words.risks(agent, what, { isLimited: constraints.length > 0, isRated });
  return html`<p>${withNames(risks, request.agent.name)}</p>
    ${added.length > 0 && detailedLimitList(texts, added)}${needsText(texts, said, preview.said)}
    ${separate.length > 0 && html`<p class="hint">${words.separated(quoted(texts, said, separate), separate.length)}</p>`}`;
}

/**
 * Returns what the application must send because of the limits, and which permissions usually do not have it.
 * A certificate's limits apply to all its scopes.
 */
function needsText(
  texts: Texts,
  said: ScopeWords,
  { approved_scope: scopes, constraints }: PreviewAnswer,
): Html | undefined {
  const words = texts.request;
  const types = (constraints as Constraint[]).map(({ type }) => type);
  const needs = types.filter((type) => Object.hasOwn(words.needed, type)).map((type) => words.needed[type]);
  const needed = [...new Set(needs)] as string[];
  if (needed.length === 0) return undefined;
  const listed = new Intl.ListFormat(texts.language);
  const without = types.includes("max_amount") ? scopes.filter(lacksAmount) : [];
  return html`<p class="hint">${words.needs(listed.format(needed))}${
    without.length > 0 && ` ${words.noAmount(quoted(texts, said, without), without.length)}`
  }</p>`;
}

/** Returns everything that most people need not read before they decide. */
export function technical(visit: Visit, waiting: Waiting): Html {
  const words = visit.texts.request;
  return html`<details><summary>${words.technical}</summary>
    ${asker(visit, waiting.request)}
    ${waiting.request.declared_by !== null && html`<p class="quiet">${words.inCluster}</p>`}
    <section class="card" aria-labelledby="preview-title"><h2 id="preview-title">${words.preview}</h2>
      <div id="preview-exact">${exact(visit, waiting)}</div></section></details>`;
}

function exact(visit: Visit, waiting: Waiting): Html | undefined {
  const words = visit.texts.request;
  const { preview } = waiting;
  if (!("said" in preview)) return undefined;
  const { said, separate } = preview;
  return html`${[said, ...(separate ? [separate] : [])].map(
    (each) => html`${lent(visit, waiting, each)}${sdkNotes(visit, each)}<p class="quiet">${words.raw}</p>
    <pre tabindex="0" aria-label=${words.raw}>${JSON.stringify(each.certificate, cutShort, 2)}</pre>`,
  )}`;
}

function cutShort(_name: string, value: unknown): unknown {
  return typeof value === "string" && value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value;
}

import type { CertificateAnswer } from "../../../delegations/delegation_answers.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { TryAnswer } from "../../../proofs/try/try_route.ts";
import type { Visit } from "../../core/page.ts";
import { neededFor, ruleTables } from "../../elements/decisions.ts";
import { badge, copyBlock, facts, jsonBlock, type Tone, time } from "../../elements/values.ts";
import type { Texts } from "../../texts/texts.ts";

/** A trial call and its result. */
export type Result = {
  certificate: CertificateAnswer;
  requiredScope: string;
  context: Record<string, string | number> | undefined;
  ceiling: readonly string[] | undefined;
  /** The price of a decision, in US dollars. */
  price: string;
  answer: TryAnswer;
};

const TONES: Record<string, Tone> = { allow: "good", deny: "bad" };
/** Strings longer than {@link LONG} characters are shortened to {@link SHOWN} characters. */
const SHOWN = 32;
const LONG = 100;
/** Lists show at most this many entries. A certificate chain never has more certificates. */
const MOST_ENTRIES = 8;

/** Returns the heading above a result. */
export function resultTitle({ texts }: Visit, { answer: { decision } }: Result): string {
  return texts.tryIt.titles[decision ?? "none"];
}

/** Returns the decision in words, its rules, what would have been needed, and the calls. */
export function resultContent(visit: Visit, result: Result): Html {
  const { texts, at } = visit;
  const words = texts.tryIt;
  const { answer, certificate } = result;
  const why = reasonOf(answer);
  return html`${verdict(visit, result, why)}
    ${
      answer.decision !== "allow" &&
      html`<section class="card"><h2>${texts.explain.needed}</h2>${neededFor(texts, why, {
        ...result,
        detail: verified(answer)?.error_reason as string | null | undefined,
      })}</section>`
    }
    <section class="card"><h2>${words.rules}</h2>${ruleTables(texts, answer.decision_reason ?? undefined)}</section>
    ${calls(visit, answer)}
    <section class="card"><h2>${words.curl}</h2><p>${words.curlHint}</p>
      ${copyBlock(texts, { id: "curl", text: answer.curl.join("\n") })}</section>
    <p class="actions"><a class="button" href=${at("/try", { delegation: certificate.cert_id })}>${words.again}</a></p>`;
}

function verdict(visit: Visit, result: Result, why: string): Html {
  const { texts, at } = visit;
  const words = texts.tryIt;
  const { answer, certificate, requiredScope, context, price } = result;
  const { decision } = answer;
  const decided = verified(answer);
  const receipt = decided?.receipt as { receipt_id?: string } | undefined;
  const isCharged = decision === "allow" || decision === "deny";
  return html`<section class="card">
    <p class="figure">${badge(decision === null ? why : `${decision} ${why}`, TONES[decision ?? ""] ?? "warn")}</p>
    <p>${sentenceOf(visit, result, why)}</p>
    ${facts([
      [words.agent, html`<bdi>${certificate.agent.name}</bdi>`],
      [words.platform, html`<bdi>${certificate.platform.name}</bdi>`],
      [
        words.delegation,
        html`<a class="mono" href=${at(`/delegations/${certificate.cert_id}`)}>${certificate.cert_id}</a>`,
      ],
      [words.scope, html`<code>${requiredScope}</code>`],
      context !== undefined && [words.sent, sentValues(visit, context)],
      typeof decided?.verified_at === "string" && [words.decidedAt, time(decided.verified_at)],
      isCharged && [words.charged, words.usd(price)],
      receipt?.receipt_id !== undefined && [
        words.receipt,
        html`<a href=${at(`/history/${receipt.receipt_id}`)}>${words.inHistory}</a>`,
      ],
    ])}
  </section>`;
}

function sentenceOf({ texts }: Visit, { answer, certificate, requiredScope }: Result, why: string): string {
  const words = texts.tryIt;
  const { name } = certificate.agent;
  if (answer.decision === "allow") return words.allowed(name, requiredScope);
  if (answer.decision === "deny") return words.denied(name, requiredScope, why);
  return answer.decision === null ? (words.refusals[why] ?? why) : words.indeterminate;
}

/** Returns the decision's reason, or the error code that ended the calls. */
function reasonOf({ decision_reason, calls }: TryAnswer): string {
  if (decision_reason !== null) return decision_reason;
  const error = calls.at(-1)?.answer.error as { code?: string } | undefined;
  return error?.code ?? "";
}

/** Returns the verify call's answer, or `undefined` if there was no decision. */
function verified({ decision, calls }: TryAnswer): Record<string, unknown> | undefined {
  return decision === null ? undefined : calls.at(-1)?.answer;
}

function sentValues({ texts }: Visit, context: Record<string, string | number>): Html {
  const names: Record<string, { label: string } | undefined> = texts.tryIt.context;
  return html`${Object.entries(context).map(
    ([name, value], place) =>
      html`${place > 0 && html`<br />`}${names[name]?.label ?? name}: ${String(value)}`,
  )}`;
}

function calls({ texts }: Visit, answer: TryAnswer): Html {
  const words = texts.tryIt;
  const shown = (value: unknown): Piece => jsonBlock(shortened(value, words));
  return html`<section class="card"><h2>${words.calls}</h2><p class="quiet">${words.callsHint}</p>
    ${answer.calls.map(
      ({ operation, method, url, body, status, answer: answered }, place) => html`<details>
        <summary>${place + 1}. ${words.callNames[operation]}: ${status}</summary>
        <p><code>${method} ${url}</code></p>
        <h3>${words.body}</h3>${body === null ? html`<p class="quiet">${words.noBody}</p>` : shown(body)}
        <h3>${words.answer}</h3>${shown(answered)}
      </details>`,
    )}</section>`;
}

/** Shortens long strings and omits long lists of objects. */
function shortened(value: unknown, words: Texts["tryIt"]): unknown {
  if (typeof value === "string") {
    return value.length > LONG ? words.shortened(value.slice(0, SHOWN), value.length) : value;
  }
  if (Array.isArray(value)) {
    const isLong = value.length > MOST_ENTRIES && typeof value[0] === "object";
    return isLong ? words.entries(value.length) : value.map((each) => shortened(each, words));
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, shortened(each, words)]));
}

import { type Html, html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import type { Visit } from "../../core/page.ts";
import { badge, type Tone } from "../../elements/badge.ts";
import { time } from "../../elements/time.ts";
import type { Texts } from "../../texts/texts.ts";

export type Delivery = Answers["list_deliveries"]["items"][number];
export type WholeDelivery = Answers["get_delivery"];
type Attempt = WholeDelivery["latest_attempts"][number];

const STATE_TONES: Record<Delivery["state"], Tone> = {
  pending: "plain",
  sending: "plain",
  delivered: "good",
  rejected: "bad",
  blocked: "bad",
  failed: "bad",
  held: "warn",
  cancelled: "plain",
};

const OUTCOME_TONES: Record<Attempt["outcome"], Tone> = {
  delivered: "good",
  failed: "warn",
  rejected: "bad",
  gone: "bad",
  blocked: "bad",
  lost: "warn",
};

/** Seconds before an attempt from which on a page looks for it by itself. */
const SOON = 60;

/** Where a delivery is, in a word. */
export function deliveryState({ deliveries }: Texts, state: Delivery["state"]): Html {
  return badge(deliveries.states[state], STATE_TONES[state]);
}

/** How the last attempt ended, in words. */
export function lastResult({ deliveries }: Texts, { last_outcome, last_status }: Delivery): string {
  if (last_outcome === null) return deliveries.noneYet;
  const result = deliveries.outcomes[last_outcome];
  return last_status === null ? result : `${result}, ${deliveries.status(last_status)}`;
}

/** Whether something happens to a delivery within a minute, so that a page keeps looking. */
export function isMoving(now: Date, { state, next_attempt_at }: Delivery): boolean {
  if (state === "sending") return true;
  return (
    state === "pending" &&
    (next_attempt_at === null || Date.parse(next_attempt_at) < now.getTime() + SOON * 1_000)
  );
}

/** One attempt: when, how long, what came of it and what to look at. */
export function attemptItem({ texts }: Visit, attempt: Attempt, isSecret: boolean): Html {
  const words = texts.deliveries;
  const { status, outcome } = attempt;
  const duration = Date.parse(attempt.ended_at) - Date.parse(attempt.started_at);
  return html`<li>
    <h3>${words.attempt(attempt.attempt)}</h3>
    <p>${badge(words.outcomes[outcome], OUTCOME_TONES[outcome])} ${status === null ? words.noAnswer : words.status(status)}
      ${" "}<span class="quiet">${time(attempt.started_at)}, ${words.took(duration)}</span></p>
    <p>${status === null ? reasonOf(texts, attempt) : words.adviceOf(status)}</p>
    ${status !== null && !isSecret && excerpt(texts, attempt)}
  </li>`;
}

/** What a stranger answered. */
function excerpt({ deliveries }: Texts, { response_excerpt: text }: Attempt): Html {
  if (text === null || text === "") return html`<p class="quiet">${deliveries.answeredNothing}</p>`;
  return html`<details open=${text.length < 500}><summary>${deliveries.answered}</summary><pre tabindex="0">${`\n${text}`}</pre></details>`;
}

function reasonOf({ deliveries }: Texts, { outcome, detail }: Attempt): string {
  if (outcome === "lost") return deliveries.outcomeLost;
  if (detail === null) return deliveries.noAnswer;
  return (Object.hasOwn(deliveries.details, detail) && deliveries.details[detail]) || detail;
}

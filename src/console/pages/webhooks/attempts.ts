import { ApiError } from "../../../errors.ts";
import { type Html, html, prose } from "../../../html/html.ts";
import type { Answers, OperationId } from "../../core/calls.ts";
import type { Form, Visit } from "../../core/page.ts";
import { form } from "../../elements/form.ts";
import { badge, type Tone, time } from "../../elements/values.ts";
import type { Texts } from "../../texts/texts.ts";
import { type CallbackAnswer, isOpen, partAddress } from "./parts.ts";

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

/** A test that was asked for, and the delivery that became of it. */
type Test = { deliveryId: string; delivery: WholeDelivery | undefined };

/** What a page calls that has the card. */
export const TEST_OPERATIONS = ["test_callback", "get_delivery"] as const satisfies OperationId[];

/** The form `test` of a page of a connection: sends a test event and leads back, to its result. */
export function testForm(part: string): Form {
  return {
    async submit(visit) {
      const { connection_id = "" } = visit.params;
      const { delivery_id } = await visit.call("test_callback", { params: { connection_id }, once: true });
      return { to: `${partAddress(visit, part, { test: delivery_id })}#test` };
    },
  };
}

/** The test that the page's address names; the worker makes its delivery within a second or so. */
export async function loadTest({ call, params, query }: Visit): Promise<Test | undefined> {
  const { test: deliveryId } = query;
  if (deliveryId === undefined) return undefined;
  const { connection_id = "" } = params;
  const delivery = await call("get_delivery", { params: { connection_id, delivery_id: deliveryId } }).catch(
    unlessUnknown,
  );
  return { deliveryId, delivery };
}

function unlessUnknown(error: unknown): undefined {
  if (error instanceof ApiError && error.code === "not_found") return undefined;
  throw error;
}

/** The form that sends a test event. */
export function testButton(visit: Visit, callback: CallbackAnswer): Html | undefined {
  const { callbacks: words } = visit.texts;
  if (!visit.may("test_callback")) return undefined;
  if (!isOpen(callback)) return html`<p class="quiet">${words.testNot}</p>`;
  return form(visit, { name: "test", submit: words.test, tone: "quiet", once: true });
}

/** What became of a test, brought up to date where scripts run until there is an answer. */
export function testResult(visit: Visit, test: Test | undefined): Html | undefined {
  if (test === undefined) return undefined;
  const { callbacks: words } = visit.texts;
  const { delivery, deliveryId } = test;
  const [last] = delivery?.latest_attempts ?? [];
  const waits = last === undefined;
  return html`<section class="card" id="test" aria-live="polite" hx-get=${waits && visit.here} hx-trigger=${waits && "every 2s"}
    hx-select="#test" hx-swap="outerHTML">
    <h2>${words.testResult}</h2>
    ${waits && prose(`${words.testWaits} ${words.testWaitsLong}`)}
    ${delivery !== undefined && html`<p>${deliveryState(visit.texts, delivery.state)} ${visit.texts.deliveries.explain[delivery.state]}</p>`}
    ${last !== undefined && html`<ol class="plain-list">${attemptItem(visit, last, false)}</ol>`}
    <p class="actions">${waits && html`<a href=${visit.here}>${words.look}</a>`}
      ${delivery !== undefined && html`<a href=${partAddress(visit, `/deliveries/${deliveryId}`)}>${words.whole}</a>`}</p>
  </section>`;
}

import { type Html, html, prose } from "../../../html/html.ts";
import type { Answers, OperationId } from "../../core/calls.ts";
import type { Form, Visit } from "../../core/page.ts";
import { form } from "../../elements/form.ts";
import { unlessNotFound } from "../../elements/listing.ts";
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

/** A page updates itself if the next attempt is due within this many seconds. */
const SOON = 60;

/** Returns the state of a delivery as a badge. */
export function deliveryState({ deliveries }: Texts, state: Delivery["state"]): Html {
  return badge(deliveries.states[state], STATE_TONES[state]);
}

/** Returns the result of the last attempt in words. */
export function lastResult({ deliveries }: Texts, { last_outcome, last_status }: Delivery): string {
  if (last_outcome === null) return deliveries.noneYet;
  const result = deliveries.outcomes[last_outcome];
  return last_status === null ? result : `${result}, ${deliveries.status(last_status)}`;
}

/** Returns whether a delivery will change within a minute, so the page must update itself. */
export function isMoving(now: Date, { state, next_attempt_at }: Delivery): boolean {
  if (state === "sending") return true;
  return (
    state === "pending" &&
    (next_attempt_at === null || Date.parse(next_attempt_at) < now.getTime() + SOON * 1_000)
  );
}

/** Returns an attempt's time, duration and result, and advice on what to check. */
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

/** Returns the receiver's response as text, since the response is untrusted. */
function excerpt({ deliveries }: Texts, { response_excerpt: text }: Attempt): Html {
  if (text === null || text === "") return html`<p class="quiet">${deliveries.answeredNothing}</p>`;
  return html`<details open=${text.length < 500}><summary>${deliveries.answered}</summary><pre tabindex="0">${`\n${text}`}</pre></details>`;
}

function reasonOf({ deliveries }: Texts, { outcome, detail }: Attempt): string {
  if (outcome === "lost") return deliveries.outcomeLost;
  if (detail === null) return deliveries.noAnswer;
  return (Object.hasOwn(deliveries.details, detail) && deliveries.details[detail]) || detail;
}

/** A test event. `delivery` is undefined until the worker has created the delivery. */
type Test = { deliveryId: string; delivery: WholeDelivery | undefined };

/** The operations of a page that contains the test card. */
export const TEST_OPERATIONS = ["test_callback", "get_delivery"] as const satisfies OperationId[];

/** Returns the form `test`. It sends a test event and shows the result on the same page. */
export function testForm(part: string): Form {
  return {
    async submit(visit) {
      const { connection_id = "" } = visit.params;
      const { delivery_id } = await visit.call("test_callback", { params: { connection_id }, once: true });
      return { to: `${partAddress(visit, part, { test: delivery_id })}#test` };
    },
  };
}

/** Returns the test that the page's URL names. The worker creates its delivery within about a second. */
export async function loadTest({ call, params, query }: Visit): Promise<Test | undefined> {
  const { test: deliveryId } = query;
  if (deliveryId === undefined) return undefined;
  const { connection_id = "" } = params;
  const delivery = await call("get_delivery", { params: { connection_id, delivery_id: deliveryId } }).catch(
    unlessNotFound,
  );
  return { deliveryId, delivery };
}

/** Returns the form that sends a test event. */
export function testButton(visit: Visit, callback: CallbackAnswer): Html | undefined {
  const { callbacks: words } = visit.texts;
  if (!visit.may("test_callback")) return undefined;
  if (!isOpen(callback)) return html`<p class="quiet">${words.testNot}</p>`;
  return form(visit, { name: "test", submit: words.test, tone: "quiet", once: true });
}

/** Returns a test's result. A script updates it until the receiver has responded. */
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

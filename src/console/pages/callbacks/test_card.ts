import { ApiError } from "../../../errors.ts";
import { type Html, html, prose } from "../../../html/html.ts";
import type { OperationId } from "../../core/calls.ts";
import type { Form, Visit } from "../../core/page.ts";
import { form } from "../../elements/forms/form.ts";
import { attemptItem, deliveryState, type WholeDelivery } from "./attempts.ts";
import { type CallbackAnswer, isOpen, partAddress } from "./parts.ts";

/** A test that was asked for, and the delivery that became of it. */
export type Test = { deliveryId: string; delivery: WholeDelivery | undefined };

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
  return form(visit, { name: "test", content: undefined, submit: words.test, tone: "quiet", once: true });
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

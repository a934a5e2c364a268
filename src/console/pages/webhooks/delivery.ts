import { type Html, html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { form } from "../../elements/form.ts";
import { staleNote, table } from "../../elements/listing.ts";
import { copyable, copyBlock, facts, jsonBlock, time } from "../../elements/values.ts";
import { attemptItem, deliveryState, isMoving, type WholeDelivery } from "./attempts.ts";
import { type CallbackAnswer, isOpen, loadCallback, partAddress, parts } from "./parts.ts";

type Shown = { callback: CallbackAnswer; delivery: WholeDelivery };

/**
 * The page about one delivery: its content, its attempts with their responses, and the form to send it again.
 */
export const deliveryPage = page<Shown>({
  id: "delivery",
  path: "/console/connections/{connection_id}/deliveries/{delivery_id}",
  operations: ["get_delivery", "get_callback", "resend_delivery"],
  async load(visit) {
    const [callback, delivery] = await Promise.all([
      loadCallback(visit),
      visit.call("get_delivery", { params: visit.params }),
    ]);
    return { callback, delivery };
  },
  title: ({ texts }, { delivery }) => texts.deliveries.deliveryTitle(delivery.event),
  render: (visit, shown) => html`${parts(visit, shown.callback)}
    ${progress(visit, shown)}${again(visit, shown)}${content(visit, shown)}`,
  forms: {
    resend: {
      async submit(visit) {
        const { params } = visit;
        const { delivery_id } = await visit.call("resend_delivery", { params, once: true });
        return { to: partAddress(visit, `/deliveries/${delivery_id}`), notice: "resent" };
      },
    },
  },
});

/** Returns a delivery's attempts. A script updates them while the delivery is in progress. */
function progress(visit: Visit, { callback, delivery }: Shown): Html {
  const { texts, now } = visit;
  const words = texts.deliveries;
  const moves = isMoving(now, delivery);
  const isSecret = delivery.body_state === "secret";
  const { latest_attempts: attempts } = delivery;
  return html`<section class="card" id="progress" hx-get=${moves && visit.here} hx-trigger=${moves && "every 3s"}
    hx-select="#progress" hx-swap="outerHTML">
    ${staleNote(visit.texts)}
    <h2>${words.state}</h2>
    <p>${deliveryState(texts, delivery.state)} ${words.explain[delivery.state]}</p>
    ${facts([
      [words.event, html`<code>${delivery.event}</code>`],
      [
        words.connection,
        callback.callback_url === null
          ? texts.callbacks.states.none
          : html`<code>${callback.callback_url}</code>`,
      ],
      ...customer(visit, delivery),
      [words.made, time(delivery.created_at)],
      delivery.next_attempt_at !== null && [words.next, time(delivery.next_attempt_at)],
      delivery.finished_at !== null && [words.finished, time(delivery.finished_at)],
      [words.deliveryId, copyable(texts, { id: "delivery-id", text: delivery.delivery_id })],
    ])}
    <h2>${words.attemptsTitle}</h2>
    ${attempts.length === 0 && html`<p class="quiet">${words.noAttempts}</p>`}
    <ol class="plain-list">${attempts.map((attempt) => attemptItem(visit, attempt, isSecret))}</ol>
    ${delivery.attempts > attempts.length && attempts.length > 0 && html`<p class="quiet">${words.attemptsOlder}</p>`}
  </section>`;
}

/** Returns facts about the customer whose event it is. None for an event of the platform's own connection. */
function customer({ texts, params }: Visit, { connection_id, org_id }: WholeDelivery): [string, Html][] {
  if (connection_id === params.connection_id) return [];
  const words = texts.deliveries;
  return [
    [words.customer, copyable(texts, { id: "org-id", text: org_id })],
    [words.customerConnection, copyable(texts, { id: "connection-id", text: connection_id })],
  ];
}

function again(visit: Visit, { callback, delivery }: Shown): Html | undefined {
  const words = visit.texts.deliveries;
  if (!visit.may("resend_delivery")) return undefined;
  const waits = delivery.state === "pending" && delivery.attempts > 0 && !isMoving(visit.now, delivery);
  const why = waits ? undefined : whyNot(words.resendNot, delivery);
  const submit = waits ? words.sendNow : words.resend;
  return html`<section class="card"><h2>${submit}</h2>
    ${
      why !== undefined
        ? html`<p class="quiet">${why}</p>`
        : isOpen(callback)
          ? html`<p>${words.resendHint}</p>${form(visit, { name: "resend", submit, once: true })}`
          : inactive(visit)
    }</section>`;
}

/** Returns a note that the callback currently receives nothing, with a link to change that. */
export function inactive(visit: Visit): Html {
  const words = visit.texts.recoveries;
  return html`<p class="quiet">${words.inactive} <a href=${partAddress(visit, "/callback")}>${words.toCallback}</a></p>`;
}

type Reasons = Visit["texts"]["deliveries"]["resendNot"];

function whyNot(reasons: Reasons, { state, body_state }: WholeDelivery): string | undefined {
  if (state === "pending" || state === "sending" || state === "held" || state === "cancelled") {
    return reasons[state];
  }
  return body_state === "erased" || (body_state === "secret" && state === "delivered")
    ? reasons.erased
    : undefined;
}

/** Returns a delivery's body and headers. It omits the signatures, which are new for each attempt. */
function content(visit: Visit, { delivery }: Shown): Html {
  const { texts, outside } = visit;
  const { header } = outside;
  const words = texts.deliveries;
  const headers: [string, string][] = [
    ["Content-Type", "application/json"],
    [header("X-Service-Delivery-ID"), delivery.delivery_id],
    ["webhook-id", delivery.delivery_id],
    [`${header("X-Service-Timestamp")}, webhook-timestamp`, words.seconds],
    [`${header("X-Service-Signature")}, webhook-signature`, words.perAttempt],
  ];
  return html`<section class="card"><h2>${words.sentTitle}</h2>
    <h3>${words.body}</h3>
    ${delivery.body_state === "secret" && html`<p>${words.bodySecret}</p>`}
    ${delivery.body_state === "erased" && html`<p>${words.bodyErased}</p>`}
    ${delivery.body !== null && html`${readable(delivery.body)}<details><summary>${words.raw}</summary>${copyBlock(texts, { id: "body", text: delivery.body })}</details>`}
    <h3>${words.headers}</h3>
    ${table({
      caption: words.headers,
      columns: [
        { label: words.header, cell: ([name]) => html`<code>${name}</code>` },
        { label: words.value, cell: ([, value]) => value },
      ],
      items: headers,
      empty: "",
    })}</section>`;
}

function readable(body: string): Html {
  return jsonBlock(JSON.parse(body));
}

import { hash } from "node:crypto";
import type { NamedEntry } from "../../../audit/history_entry.ts";
import type { ReceiptAnswer } from "../../../audit/receipt_routes.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import { badge, type Tone } from "../../elements/badge.ts";
import { copyable } from "../../elements/copyable.ts";
import { facts } from "../../elements/facts.ts";
import { time } from "../../elements/time.ts";

const TONES: Record<NonNullable<ReceiptAnswer["outcome"]>["outcome"], Tone> = {
  executed: "good",
  failed: "bad",
  refused_by_receiver: "warn",
  not_attempted: "plain",
};

/** What the file of a receipt is called. */
export function receiptFileName(receiptId: string): string {
  return `receipt-${receiptId}.json`;
}

/** What the application reported of a decision; nothing when it did not. */
export function outcomeCard({ texts }: Visit, { outcome }: ReceiptAnswer): Html | undefined {
  if (outcome === null) return undefined;
  const words = texts.history.outcome;
  return html`<section class="card"><h2>${words.title}</h2>
    <p>${badge(words[outcome.outcome], TONES[outcome.outcome])}</p>
    ${facts([
      [words.at, time(outcome.occurred_at)],
      outcome.detail !== null && [words.detail, outcome.detail],
    ])}</section>`;
}

/** A decision's receipt: whether it is as it was made, the file, and how others check it. */
export function receiptCard(visit: Visit, event: NamedEntry, receipt: ReceiptAnswer): Html {
  const { texts, at } = visit;
  const words = texts.history.receipt;
  const found = `sha256:${hash("sha256", receipt.canonical)}`;
  const isIntact = found === receipt.receipt_hash && found === event.receipt_hash;
  const file = receiptFileName(receipt.receipt_id);
  return html`<section class="card"><h2>${words.title}</h2><p>${words.lead}</p>
    <p>${isIntact ? badge(words.intact, "good") : badge(words.broken, "bad")}</p>
    ${facts([[words.hash, copyable(texts, { id: "receipt-hash", text: receipt.receipt_hash })]])}
    <p class="actions"><a class="button quiet" href=${at(`/history/${receipt.receipt_id}/receipt`)}>${words.download}</a></p>
    <p>${words.outside}</p>
    <p>${copyable(texts, { id: "receipt-command", text: `sha256sum ${file}` })}</p>
    <p class="quiet">${words.outsideHint} <a href=${at("/receipts/check")}>${words.page}</a></p>
  </section>`;
}

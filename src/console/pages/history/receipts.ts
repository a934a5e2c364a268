import { hash } from "node:crypto";
import { ApiError } from "../../../errors.ts";
import type { NamedEntry } from "../../../history/history_entry.ts";
import type { ReceiptAnswer } from "../../../history/receipt_routes.ts";
import { type Html, html } from "../../../html/html.ts";
import { parseBody } from "../../../http/body.ts";
import { icon } from "../../core/icons.ts";
import { page, type Visit } from "../../core/page.ts";
import { areaField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { badge, copyable, facts, type Tone, time } from "../../elements/values.ts";

type Read = { receipt: Record<string, unknown>; hashBeside: unknown };

/** The page on which any signed-in person can paste a receipt and check whether it is genuine. */
export const checkReceiptPage = page({
  id: "check_receipt",
  path: "/console/receipts/check",
  operations: ["check_receipt"],
  load: async () => undefined,
  title: ({ texts }) => texts.history.verify.title,
  back: ({ at, texts }) => ({ to: at("/history"), text: texts.history.title }),
  render: (visit) => html`<p class="lead">${visit.texts.history.verify.lead}</p>${receiptForm(visit)}`,
  forms: {
    check: {
      faults: (texts) => ({ receipt: texts.history.verify.fault }),
      async submit(visit, fields) {
        const read = readReceipt(fields.get("receipt"));
        const { genuine, receipt_hash } = await visit.call("check_receipt", {
          body: { receipt: read.receipt },
        });
        const words = visit.texts.history.verify;
        return {
          title: genuine ? words.genuine : words.not,
          content: html`${verdict(visit, { ...read, genuine, found: receipt_hash })}
            <p><a class="button quiet" href=${visit.here}>${words.again}</a></p>`,
        };
      },
    },
  },
});

function receiptForm(visit: Visit): Html {
  const words = visit.texts.history.verify;
  return html`<section class="card">${form(visit, {
    name: "check",
    content: areaField(visit, {
      form: "check",
      name: "receipt",
      label: words.field,
      hint: words.hint,
      attributes: { rows: 10, spellcheck: "false", class: "mono" },
    }),
    submit: words.submit,
  })}</section>`;
}

/** Parses a receipt, or an answer that contains one, as strictly as the API does. */
function readReceipt(text: string): Read {
  const value = parsed(text);
  const outer = isObject(value) ? value : {};
  const receipt = isObject(outer.receipt) ? outer.receipt : outer;
  if (Object.keys(receipt).length === 0) {
    throw new ApiError("invalid_request", "body.receipt: is not a receipt");
  }
  return { receipt, hashBeside: receipt === outer ? undefined : outer.receipt_hash };
}

function parsed(text: string): unknown {
  try {
    return parseBody(Buffer.from(text.trim()));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError("invalid_request", "body.receipt: is not JSON");
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function verdict({ texts }: Visit, found: Read & { genuine: boolean; found: string }): Html {
  const { verify: words } = texts.history;
  const { genuine, receipt, hashBeside, found: hash } = found;
  const said = (field: string) => (typeof receipt[field] === "string" ? receipt[field] : undefined);
  const fact = (label: string, field: string) => {
    const value = said(field);
    return value !== undefined && ([label, html`<span class="mono">${value}</span>`] as [string, Html]);
  };
  return html`<section class="card">
    <p>${genuine ? badge(words.genuine, "good") : badge(words.not, "bad")}</p>
    <p>${genuine ? words.genuineLead : words.notLead}</p>
    ${typeof hashBeside === "string" && hashBeside !== hash && html`<p class="refusal">${words.otherHash}</p>`}
    <h2>${words.says}</h2>
    ${facts([
      fact(words.decision, "decision"),
      fact(texts.history.reason, "decision_reason"),
      fact(words.at, "verified_at"),
      fact(words.scope, "required_scope"),
      fact(words.agent, "agent_id"),
      fact(words.receiptId, "receipt_id"),
      [words.hash, html`<span class="mono">${hash}</span>`],
    ])}
  </section>`;
}

const TONES: Record<NonNullable<ReceiptAnswer["outcome"]>["outcome"], Tone> = {
  executed: "good",
  failed: "bad",
  refused_by_receiver: "warn",
  not_attempted: "plain",
};

function receiptFileName(receiptId: string): string {
  return `receipt-${receiptId}.json`;
}

/** Returns the outcome that the application reported after a decision, if any. */
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

/** Returns the card about a decision's receipt: whether it is unchanged, its file, and how to check it. */
export function receiptCard(visit: Visit, event: NamedEntry, receipt: ReceiptAnswer): Html {
  const { texts, at } = visit;
  const words = texts.history.receipt;
  const found = `sha256:${hash("sha256", receipt.canonical)}`;
  const isIntact = found === receipt.receipt_hash && found === event.receipt_hash;
  const file = receiptFileName(receipt.receipt_id);
  return html`<section class="card"><h2>${words.title}</h2><p>${words.lead}</p>
    <p>${isIntact ? badge(words.intact, "good") : badge(words.broken, "bad")}</p>
    ${facts([[words.hash, copyable(texts, { id: "receipt-hash", text: receipt.receipt_hash })]])}
    <p class="actions"><a class="button quiet" href=${at(`/history/${receipt.receipt_id}/receipt`)}>${icon("download")}${words.download}</a></p>
    <p>${words.outside}</p>
    <p>${copyable(texts, { id: "receipt-command", text: `sha256sum ${file}` })}</p>
    <p class="quiet">${words.outsideHint} <a href=${at("/receipts/check")}>${words.page}</a></p>
  </section>`;
}

/** The page that downloads a decision's receipt, with exactly the bytes that the receipt's hash covers. */
export const receiptFilePage = page<ReceiptAnswer>({
  id: "history_receipt",
  path: "/console/history/{receipt_id}/receipt",
  operations: ["get_receipt"],
  load: ({ call, params }) => call("get_receipt", { params }),
  file: (_, { receipt_id, canonical }) => ({
    name: receiptFileName(receipt_id),
    type: "application/json",
    content: canonical,
  }),
});

import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import { parseBody } from "../../../http/body.ts";
import { page, type Visit } from "../../core/page.ts";
import { badge } from "../../elements/badge.ts";
import { facts } from "../../elements/facts.ts";
import { areaField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";

type Read = { receipt: Record<string, unknown>; hashBeside: unknown };

/** Where anybody who is signed in pastes a receipt and sees whether it is genuine. */
export const checkReceiptPage = page({
  id: "check_receipt",
  path: "/console/receipts/check",
  access: "onboarded",
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

/** What was pasted: a receipt, or an answer that has one, read as strictly as the API does. */
function readReceipt(text: string): Read {
  const value = parsed(text);
  const outer = isObject(value) ? value : {};
  const receipt = isObject(outer.receipt) ? outer.receipt : outer;
  if (Object.keys(receipt).length === 0) throw new ApiError("invalid_request", "body.receipt: is no receipt");
  return { receipt, hashBeside: receipt === outer ? undefined : outer.receipt_hash };
}

function parsed(text: string): unknown {
  try {
    return parseBody(Buffer.from(text.trim()));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError("invalid_request", "body.receipt: is no JSON");
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

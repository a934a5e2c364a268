import { formatUsd } from "../../../accounts/ledger/credits.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import { page, type Visit } from "../../core/page.ts";
import { facts } from "../../elements/facts.ts";
import { pager, table } from "../../elements/listing.ts";
import { time } from "../../elements/time.ts";
import { creditLeft, loadCounts, whomToAsk } from "./credit_left.ts";

type Data = Awaited<ReturnType<typeof load>>;
type Posting = NonNullable<Answers["get_credits"]["items"]>[number];

/** What an account has for decisions, how long it lasts, whom to ask for more, and what was posted. */
export const creditPage = page<Data>({
  id: "credit",
  path: "/console/credit",
  access: "onboarded",
  operations: ["get_credits", "count_decisions"],
  navigation: { order: 80, label: ({ credit }) => credit.navigation },
  load,
  title: ({ texts }) => texts.credit.title,
  render: (visit, data) => html`${state(visit, data)}${more(visit)}${postings(visit, data)}`,
});

async function load(visit: Visit) {
  const [credits, counts] = await Promise.all([
    visit.call("get_credits", { query: { cursor: visit.query.cursor } }),
    loadCounts(visit),
  ]);
  return { credits, counts };
}

function state(visit: Visit, data: Data): Html {
  const { credit: words } = visit.texts;
  return html`<section class="card">${creditLeft(visit, data)}
    ${facts([[words.price, words.priceOf(formatUsd(data.credits.price_micro_usd))]])}</section>`;
}

function more(visit: Visit): Html {
  const { texts, acting } = visit;
  const { credit: words } = texts;
  return html`<section class="card"><h2>${words.more}</h2><p>${whomToAsk(visit)}</p>
    ${facts([[words.name, html`<span class="mono">${acting?.account_id}</span>`]])}</section>`;
}

function postings(visit: Visit, { credits: { items = [], next_cursor = null } }: Data): Html {
  const { credit: words } = visit.texts;
  return html`<section class="card"><h2>${words.postings}</h2>
    ${table({
      caption: words.postings,
      items,
      empty: words.noPostings,
      columns: [
        { label: words.when, cell: ({ posted_at }) => time(posted_at) },
        { label: words.what, cell: (posting) => what(visit, posting) },
        { label: words.amount, cell: ({ amount_micro_usd }) => signed(amount_micro_usd) },
      ],
    })}
    ${pager(visit, next_cursor)}</section>`;
}

function what({ texts: { credit: words } }: Visit, { kind, reason, reference }: Posting): Html {
  return html`${words.kinds[kind]}${reason !== undefined && html`: ${reason}`}
    ${reference !== undefined && html`<br /><span class="quiet">${words.reference} ${reference}</span>`}`;
}

function signed(microUsd: number): string {
  return `${microUsd < 0 ? "−" : "+"}${formatUsd(Math.abs(microUsd))}`;
}

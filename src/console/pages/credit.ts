import { creditLevel, formatUsd } from "../../accounts/ledger/amounts.ts";
import { ApiError } from "../../errors.ts";
import type { DailyCounts } from "../../history/daily_counts.ts";
import { type Html, html } from "../../html/html.ts";
import type { Answers } from "../core/calls.ts";
import { page, type Visit } from "../core/page.ts";
import { pager, table } from "../elements/listing.ts";
import { facts, time } from "../elements/values.ts";

type Data = Awaited<ReturnType<typeof load>>;
type Posting = NonNullable<Answers["get_credits"]["items"]>[number];

/** The page about the account's credit: the balance, how long it will last, and the postings. */
export const creditPage = page<Data>({
  id: "credit",
  path: "/console/credit",
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

function what({ texts: { credit: words } }: Visit, { kind, terms, reason, reference }: Posting): Html {
  return html`${words.kinds[kind]}${terms !== undefined && html` (${words.terms[terms]})`}${reason !== undefined && html`: ${reason}`}
    ${reference !== undefined && html`<br /><span class="quiet">${words.reference} ${reference}</span>`}`;
}

function signed(microUsd: number): string {
  return `${microUsd < 0 ? "−" : microUsd > 0 ? "+" : ""}${formatUsd(Math.abs(microUsd))}`;
}

/** The estimate of how long the credit will last uses the decisions of this many past days. */
const RATE_DAYS = 7;

/** Returns the decision counts by day, or `undefined` if the history is too long to count in time. */
export function loadCounts(visit: Visit): Promise<DailyCounts | undefined> {
  return visit.call("count_decisions").catch((error: unknown) => {
    if (error instanceof ApiError && error.code === "unavailable") return undefined;
    throw error;
  });
}

type Left = { credits: Answers["get_credits"]; counts: DailyCounts | undefined };

/** Returns the remaining credit in decisions and days, and the contact for more credit if it is low. */
export function creditLeft(visit: Visit, { credits, counts }: Left): Html {
  const { home, credit: words } = visit.texts;
  if (credits.terms === "postpaid") return html`<p class="figure">${words.invoiced}</p>`;
  const days = counts && daysLeft(credits, counts);
  const level = creditLevel(credits);
  return html`<p class="figure">${home.balance(credits.balance_usd)}</p>
    <p>${home.decisionsLeft(Math.max(0, Math.floor(credits.balance_micro_usd / credits.price_micro_usd)))}</p>
    ${days !== undefined && html`<p class="quiet">${home.lasts(days)}</p>`}
    ${level !== "enough" && html`<p class="refusal">${words.levels[level]} ${words.levelHints[level]} ${whomToAsk(visit)}</p>`}`;
}

/** Returns how long the credit lasts at the average use of the past days, or `Infinity` without any use. */
function daysLeft(credits: Left["credits"], { days }: DailyCounts): number {
  const last = days.slice(-RATE_DAYS);
  const used = last.reduce((sum, { charged }) => sum + charged, 0) * credits.price_micro_usd;
  return used === 0 ? Number.POSITIVE_INFINITY : (credits.balance_micro_usd / used) * last.length;
}

/** Returns the contact for more credit. */
export function whomToAsk({ contact, texts: { credit: words } }: Visit): Html {
  if (contact === undefined) return html`${words.askNobody}`;
  const isAddress = !/^https?:/i.test(contact);
  return html`${words.ask} <a href=${isAddress ? `mailto:${contact}` : contact}>${contact}</a>.`;
}

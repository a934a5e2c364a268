import { creditLevel } from "../../../accounts/ledger/credits.ts";
import type { DailyCounts } from "../../../audit/daily_counts.ts";
import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import type { Visit } from "../../core/page.ts";

/** Days whose decisions tell how fast credit is used. */
const RATE_DAYS = 7;

/** The counts by day; nothing for a history too long to be counted in time. */
export function loadCounts(visit: Visit): Promise<DailyCounts | undefined> {
  return visit.call("count_decisions").catch((error: unknown) => {
    if (error instanceof ApiError && error.code === "unavailable") return undefined;
    throw error;
  });
}

type Left = { credits: Answers["get_credits"]; counts: DailyCounts | undefined };

/** What credit is left, for how many decisions and days, and whom to ask for more when it is little. */
export function creditLeft(visit: Visit, { credits, counts }: Left): Html {
  const { home, credit: words } = visit.texts;
  const days = counts && daysLeft(credits, counts);
  const level = creditLevel(credits);
  return html`<p class="figure">${home.balance(credits.balance_usd)}</p>
    <p>${home.decisionsLeft(Math.max(0, Math.floor(credits.balance_micro_usd / credits.price_micro_usd)))}</p>
    ${days !== undefined && html`<p class="quiet">${home.lasts(days)}</p>`}
    ${level !== "enough" && html`<p class="refusal">${words.levels[level]} ${words.levelHints[level]} ${whomToAsk(visit)}</p>`}`;
}

/** For how many days the credit lasts when they are like the last ones; `Infinity` when nothing was used. */
function daysLeft(credits: Left["credits"], { days }: DailyCounts): number {
  const last = days.slice(-RATE_DAYS);
  const used = last.reduce((sum, { charged }) => sum + charged, 0) * credits.price_micro_usd;
  return used === 0 ? Number.POSITIVE_INFINITY : (credits.balance_micro_usd / used) * last.length;
}

/** Who gives more credit. */
export function whomToAsk({ contact, texts: { credit: words } }: Visit): Html {
  if (contact === undefined) return html`${words.askNobody}`;
  const isAddress = !/^https?:/i.test(contact);
  return html`${words.ask} <a href=${isAddress ? `mailto:${contact}` : contact}>${contact}</a>.`;
}

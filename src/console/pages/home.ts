import type { DailyCounts } from "../../audit/daily_counts_route.ts";
import type { CertificateAnswer, RequestAnswer } from "../../delegations/answers.ts";
import { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import { page, signedIn, type Visit } from "../core/page.ts";
import { decisionsChart } from "../elements/decisions_chart.ts";
import { scopeList } from "../elements/scopes.ts";
import { time } from "../elements/time.ts";
import type { Texts } from "../texts/en.ts";

const SHOWN = 5;
/** Days whose decisions tell how fast credit is used. */
const RATE_DAYS = 7;

type Home = Awaited<ReturnType<typeof load>>;

/** What waits, what is active, what was denied lately, and what credit is left. */
export const homePage = page<Home>({
  id: "home",
  path: "/console",
  access: "onboarded",
  operations: [
    "list_delegation_requests",
    "list_delegations",
    "list_audit_events",
    "count_decisions",
    "get_credits",
  ],
  navigation: { order: 0, label: (texts) => texts.navigation.home },
  load,
  title: (visit) => visit.texts.home.title(signedIn(visit).first_name ?? ""),
  render: (visit, home) => html`${waiting(visit, home)}
    <div class="cards">${active(visit, home)}${denied(visit, home)}${credit(visit, home)}</div>
    ${decisions(visit, home)}`,
});

async function load(visit: Visit) {
  const [requests, delegations, denials, credits, counts] = await Promise.all([
    visit.call("list_delegation_requests", { query: { status: "pending", limit: "25" } }),
    visit.call("list_delegations", { query: { status: "approved", limit: "100" } }),
    visit.call("list_audit_events", { query: { decision: "deny", limit: String(SHOWN) } }),
    visit.call("get_credits", { query: { limit: "1" } }),
    visit.call("count_decisions").catch(unlessAway),
  ]);
  const isActive = ({ expires_at }: CertificateAnswer) =>
    expires_at === null || Date.parse(expires_at) > visit.now.getTime();
  return { requests, active: delegations.items.filter(isActive), denials: denials.events, credits, counts };
}

/** A history too long to be counted in time leaves the rest of the page as it is. */
function unlessAway(error: unknown): undefined {
  if (error instanceof ApiError && error.code === "unavailable") return undefined;
  throw error;
}

/** The requests that wait, brought up to date where scripts run. */
function waiting(visit: Visit, { requests }: Home): Html {
  const { home } = visit.texts;
  const { items, next_cursor } = requests;
  return html`<section id="waiting" class="card" aria-labelledby="waiting-title" hx-get=${visit.at("/")} hx-trigger="every 30s"
    hx-select="#waiting" hx-swap="outerHTML">
    <h2 id="waiting-title">${home.waiting(items.length, next_cursor !== null)}</h2>
    ${
      items.length === 0
        ? html`<p class="quiet">${home.nothingWaits}</p>`
        : html`<ul class="plain-list">${items.map((request) => requestItem(visit, request))}</ul>`
    }
  </section>`;
}

function requestItem(visit: Visit, request: RequestAnswer): Html {
  const { home } = visit.texts;
  return html`<li>
    <p><a href=${visit.at(`/requests/${encodeURIComponent(request.request_id)}`)}>${home.asks(request.requested_scope.length)}</a>
    ${" "}<span class="quiet">${home.since} ${time(request.created_at)}</span></p>
    ${scopeList(request.requested_scope)}
  </li>`;
}

function active({ texts }: Visit, { active: certificates }: Home): Html {
  const { home } = texts;
  return html`<section class="card"><h2>${home.active(certificates.length)}</h2>
    ${certificates.length === 0 && html`<p class="quiet">${home.nothingActive}</p>`}
    <ul class="plain-list">${certificates.slice(0, SHOWN).map(
      (certificate) => html`<li>${scopeList(certificate.approved_scope)}
        <p class="quiet">${certificate.expires_at === null ? home.forever : html`${home.until} ${time(certificate.expires_at)}`}</p></li>`,
    )}</ul></section>`;
}

function denied({ texts }: Visit, { denials }: Home): Html {
  const { home } = texts;
  return html`<section class="card"><h2>${home.denied}</h2>
    ${denials.length === 0 && html`<p class="quiet">${home.nothingDenied}</p>`}
    <ul class="plain-list">${denials.map(
      ({
        occurred_at,
        details,
      }) => html`<li><p><code>${details.required_scope}</code>: ${reasonOf(texts, details.decision_reason ?? "")}</p>
        <p class="quiet">${time(occurred_at)}</p></li>`,
    )}</ul></section>`;
}

function reasonOf({ decisions }: Texts, reason: string): string {
  return (Object.hasOwn(decisions.reasons, reason) && decisions.reasons[reason]) || reason;
}

function credit({ texts }: Visit, { credits, counts }: Home): Html {
  const { home } = texts;
  const isLow = credits.balance_micro_usd <= credits.low_at_micro_usd;
  const days = counts && daysLeft(credits, counts);
  return html`<section class="card"><h2>${home.credit}</h2>
    <p class="figure">${home.balance(credits.balance_usd)}</p>
    <p>${home.decisionsLeft(Math.max(0, Math.floor(credits.balance_micro_usd / credits.price_micro_usd)))}</p>
    ${days !== undefined && html`<p class="quiet">${home.lasts(days)}</p>`}
    ${isLow && html`<p class="refusal">${home.low}</p>`}</section>`;
}

/** For how many days the credit lasts when they are like the last ones; `Infinity` when nothing was used. */
function daysLeft(credits: Home["credits"], { days }: DailyCounts): number {
  const last = days.slice(-RATE_DAYS);
  const used = last.reduce((sum, { charged }) => sum + charged, 0) * credits.price_micro_usd;
  return used === 0 ? Number.POSITIVE_INFINITY : (credits.balance_micro_usd / used) * last.length;
}

function decisions({ texts }: Visit, { counts }: Home): Html {
  const { home } = texts;
  return html`<section class="card"><h2>${home.decisions}</h2>
    ${counts === undefined ? html`<p class="quiet">${home.notCounted}</p>` : decisionsChart(counts, texts)}</section>`;
}

import type { CertificateAnswer, RequestAnswer } from "../../delegations/delegation_answers.ts";
import { type Html, html } from "../../html/html.ts";
import { page, signedIn, type Visit } from "../core/page.ts";
import { decisionsChart, reasonText } from "../elements/decisions.ts";
import { FIRST_STEP_OPERATIONS, firstSteps, loadFirstSteps } from "../elements/first_steps.ts";
import { staleNote } from "../elements/listing.ts";
import { scopeList } from "../elements/scopes.ts";
import { time, withNames } from "../elements/values.ts";
import { creditLeft, loadCounts } from "./credit.ts";

const SHOWN = 5;

type Home = Awaited<ReturnType<typeof load>>;

/**
 * The home page: pending requests, the first steps of a new account, active delegations, recent denials and
 * the remaining credit.
 */
export const homePage = page<Home>({
  id: "home",
  path: "/console",
  operations: [
    "list_delegation_requests",
    "list_delegations",
    "export_audit_events",
    "count_decisions",
    "get_credits",
    ...FIRST_STEP_OPERATIONS,
  ],
  navigation: { order: 0, label: (texts) => texts.navigation.home },
  load,
  title: (visit) => visit.texts.home.title(signedIn(visit).first_name ?? ""),
  render: (visit, home) => html`${waiting(visit, home)}
    ${firstSteps(visit, home.steps)}
    <div class="cards">${active(visit, home)}${denied(visit, home)}${credit(visit, home)}</div>
    ${decisions(visit, home)}`,
});

async function load(visit: Visit) {
  const [requests, delegations, denials, credits, counts] = await Promise.all([
    visit.call("list_delegation_requests", { query: { status: "pending", limit: "25" } }),
    visit.call("list_delegations", { query: { status: "approved", limit: "100" } }),
    visit.call("export_audit_events", { query: { decision: "deny", limit: String(SHOWN) } }),
    visit.call("get_credits", { query: { limit: "1" } }),
    loadCounts(visit),
  ]);
  const isActive = ({ expires_at }: CertificateAnswer) =>
    expires_at === null || Date.parse(expires_at) > visit.now.getTime();
  const active = delegations.items.filter(isActive);
  const steps = await loadFirstSteps(visit, {
    hasDelegation: active.length > 0,
    hasAllowed: counts?.days.some(({ allow }) => allow > 0) ?? true,
  });
  return { requests, active, denials: denials.events, credits, counts, steps };
}

/** Returns the pending requests. A script updates them. */
function waiting(visit: Visit, { requests }: Home): Html {
  const { home } = visit.texts;
  const { items, next_cursor } = requests;
  return html`<section id="waiting" class="card" aria-labelledby="waiting-title" hx-get=${visit.at("/")} hx-trigger="every 30s"
    hx-select="#waiting" hx-swap="outerHTML">
    ${staleNote(visit.texts)}
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
    <p><a href=${visit.at(`/requests/${encodeURIComponent(request.request_id)}`)}>${withNames(home.asks, request.agent.name, request.platform.name)}</a>
    ${" "}<span class="quiet">${home.since} ${time(request.created_at)}</span></p>
    ${scopeList(request.requested_scope, request.scope_descriptions)}
  </li>`;
}

function active({ texts, at }: Visit, { active: certificates }: Home): Html {
  const { home, delegations } = texts;
  return html`<section class="card"><h2>${home.active(certificates.length)}</h2>
    ${certificates.length === 0 && html`<p class="quiet">${home.nothingActive}</p>`}
    <ul class="plain-list">${certificates.slice(0, SHOWN).map(
      ({ cert_id, agent, platform, approved_scope, scope_descriptions, expires_at }) => html`<li>
        <p><a href=${at(`/delegations/${cert_id}`)}><bdi>${agent.name}</bdi></a> <span class="quiet">${withNames(delegations.of, platform.name)}</span></p>
        ${scopeList(approved_scope, scope_descriptions)}
        <p class="quiet">${expires_at === null ? home.forever : html`${home.until} ${time(expires_at)}`}</p></li>`,
    )}</ul>
    <p><a href=${at("/delegations")}>${home.allDelegations}</a></p></section>`;
}

function denied({ texts, at }: Visit, { denials }: Home): Html {
  const { home } = texts;
  return html`<section class="card"><h2>${home.denied}</h2>
    ${denials.length === 0 && html`<p class="quiet">${home.nothingDenied}</p>`}
    <ul class="plain-list">${denials.map(
      ({ event_id, occurred_at, agent_id, agent_name, scope_label: label, details }) => html`<li>
        <p><a href=${at(`/history/${event_id}`)}><bdi>${agent_name ?? agent_id}</bdi></a> <span class="quiet">${time(occurred_at)}</span></p>
        <p>${label === null ? html`<code>${details.required_scope}</code>` : html`<bdi>${label}</bdi>`}: ${reasonText(texts, details)}</p></li>`,
    )}</ul>
    <p><a href=${at("/history", { result: "deny" })}>${home.allDenied}</a></p></section>`;
}

function credit(visit: Visit, home: Home): Html {
  const { texts, at } = visit;
  return html`<section class="card"><h2>${texts.home.credit}</h2>${creditLeft(visit, home)}
    <p><a href=${at("/credit")}>${texts.home.creditLink}</a></p></section>`;
}

function decisions({ texts, at }: Visit, { counts }: Home): Html {
  const { home } = texts;
  return html`<section class="card"><h2>${home.decisions}</h2>
    ${counts === undefined ? html`<p class="quiet">${home.notCounted}</p>` : decisionsChart(counts, texts, (day) => at("/history", { from: day, to: day }))}</section>`;
}

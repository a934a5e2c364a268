import type { CertificateAnswer } from "../../../delegations/delegation_answers.ts";
import type { NamedEntry } from "../../../history/history_entry.ts";
import type { ReceiptAnswer } from "../../../history/receipt_routes.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Call } from "../../core/calls.ts";
import { page, signedIn, type Visit } from "../../core/page.ts";
import { decisionBadge, isAskable, neededFor, reasonText, ruleTables } from "../../elements/decisions.ts";
import { unlessNotFound } from "../../elements/listing.ts";
import { labelledScope } from "../../elements/scopes.ts";
import { facts, moment, withNames, zoneSwitch } from "../../elements/values.ts";
import { outcomeCard, receiptCard } from "./receipts.ts";

type Shown = {
  event: NamedEntry;
  receipt: ReceiptAnswer | undefined;
  certificate: CertificateAnswer | undefined;
  ceiling: readonly string[] | undefined;
};

/** The page about one event of the history: the question, the decision with its reason, and the receipt. */
export const eventPage = page<Shown>({
  id: "history_event",
  path: "/console/history/{event_id}",
  operations: [
    "get_audit_event",
    "get_receipt",
    "get_delegation",
    "get_platform",
    "request_delegation",
    "approve_delegation_request",
  ],
  load,
  title: ({ texts }, { event: { details } }) => {
    const words = texts.history.event;
    return details.decision === undefined ? words.presented : words.title[details.decision];
  },
  back: ({ at, texts }) => ({ to: at("/history"), text: texts.history.title }),
  render(visit, shown) {
    const { event, receipt } = shown;
    const { history: words, explain } = visit.texts;
    const { decision, decision_reason: reason } = event.details;
    const presentedLead =
      event.counterpart_id === undefined ? words.event.undecidedLead : words.event.decidedLead;
    return html`${decision === undefined && html`<p class="lead">${presentedLead}</p>`}
      <section class="card"><h2>${words.event.facts}</h2>${whatHappened(visit, shown)}</section>
      ${decision !== undefined && decision !== "allow" && needed(visit, shown)}
      ${receipt !== undefined && outcomeCard(visit, receipt)}
      ${decision !== undefined && html`<section class="card"><h2>${words.event.rules}</h2>${ruleTables({ ...visit.texts, explain }, reason)}</section>`}
      ${receipt !== undefined && receiptCard(visit, event, receipt)}`;
  },
});

async function load({ call, params }: Visit): Promise<Shown> {
  const event = await call("get_audit_event", { params });
  const { receipt_id, decision_reason: reason } = event.details;
  const [receipt, certificate, platform] = await Promise.all([
    receipt_id === undefined ? undefined : call("get_receipt", { params: { receipt_id } }),
    findCertificate(call, event),
    reason === "ceiling_exceeded" && event.platform_id !== null
      ? call("get_platform", { params: { platform_id: event.platform_id } }).catch(unlessNotFound)
      : undefined,
  ]);
  return { event, receipt, certificate, ceiling: platform?.default_allowed_scopes };
}

/** Returns a decision's certificate, or `undefined` if the certificate belongs to another account. */
async function findCertificate(call: Call, { cert_id }: NamedEntry): Promise<CertificateAnswer | undefined> {
  if (cert_id === null) return undefined;
  return call("get_delegation", { params: { cert_id } }).catch(unlessNotFound);
}

function whatHappened(visit: Visit, { event, certificate, receipt }: Shown): Html {
  const { texts } = visit;
  const words = texts.history.event;
  const { details } = event;
  const reason = reasonText(texts, details);
  return facts([
    [words.decided, html`${moment(event.occurred_at)} ${zoneSwitch(texts)}`],
    [
      texts.history.result,
      html`${decisionBadge(texts, details)}${reason !== undefined && html`${" "}${reason}`}`,
    ],
    details.required_scope !== undefined && [
      words.asked,
      labelledScope(details.required_scope, event.scope_label),
    ],
    details.action_profile !== undefined && [words.action, html`<bdi>${details.action_profile}</bdi>`],
    [words.agent, agentOf(visit, event)],
    [words.platform, platformOf(visit, event)],
    event.cert_id !== null && [words.certificate, certificateOf(visit, event.cert_id, certificate)],
    event.human_id !== null && [words.human, humanOf(visit, event.human_id)],
    proofOf(visit, event, receipt),
    [words.id, html`<span class="mono">${event.event_id}</span>`],
  ]);
}

/** Returns the link between a decision and its proof. The proof's hash remains when its event is deleted. */
function proofOf(
  { at, texts }: Visit,
  { details, counterpart_id: id }: NamedEntry,
  receipt: ReceiptAnswer | undefined,
): [string, Html] | undefined {
  const words = texts.history.event;
  const to = id === undefined ? undefined : at(`/history/${id}`);
  if (details.decision === undefined) {
    return to === undefined ? undefined : [words.itsDecision, html`<a href=${to}>${words.toDecision}</a>`];
  }
  const hash = receipt?.receipt.bundle_hash;
  if (typeof hash !== "string") return undefined;
  return [
    words.proof,
    html`${to === undefined ? html`<span class="quiet">${words.proofGone}</span>` : html`<a href=${to}>${words.toProof}</a>`}<br /><span class="mono">sha256:${hash}</span>`,
  ];
}

function agentOf({ at, texts }: Visit, { agent_id, agent_name }: NamedEntry): Html {
  const words = texts.history.event;
  const id = html`<span class="mono quiet">${agent_id}</span>`;
  const all = html`<a href=${at("/history", { agent_id })}>${words.only.agent}</a>`;
  if (agent_name === null) return html`${words.foreignAgent} ${id}<br />${all}`;
  return html`<a href=${at(`/agents/${agent_id}`)}><bdi>${agent_name}</bdi></a> ${id}<br />${all}`;
}

function platformOf({ at, texts }: Visit, event: NamedEntry): Html {
  const words = texts.history.event;
  const { platform_id, platform_name, connection_id, details } = event;
  if (details.verifier !== undefined) {
    const { platform_name: name, organization_name } = details.verifier;
    const verifier =
      organization_name === null
        ? html`<bdi>${name}</bdi>`
        : withNames(words.verifier, name, organization_name);
    return html`${verifier}, ${words.foreign}`;
  }
  if (platform_id === null) return html`<span class="mono">${connection_id}</span>`;
  return html`<a href=${at(`/platforms/${platform_id}`)}><bdi>${platform_name}</bdi></a>`;
}

function certificateOf({ at, texts }: Visit, certId: string, certificate: Shown["certificate"]): Html {
  const words = texts.history.event;
  const id = html`<span class="mono">${certId}</span>`;
  const own = certificate === undefined ? id : html`<a href=${at(`/delegations/${certId}`)}>${id}</a>`;
  return html`${own}<br /><a href=${at("/history", { cert_id: certId })}>${words.only.certificate}</a>`;
}

function humanOf(visit: Visit, humanId: string): Html {
  const words = visit.texts.history.event;
  const isOwn = visit.account === undefined && signedIn(visit).human_id === humanId;
  return html`${isOwn && `${words.own} `}<span class=${isOwn ? "mono quiet" : "mono"}>${humanId}</span>`;
}

function needed(visit: Visit, { event, certificate, ceiling }: Shown): Html {
  const { required_scope, decision_reason = "" } = event.details;
  return html`<section class="card"><h2>${visit.texts.explain.needed}</h2>
    ${neededFor(visit.texts, decision_reason, { requiredScope: required_scope, certificate, ceiling })}
    ${certificate !== undefined && toAsk(visit, event)}</section>`;
}

/** Returns a link to a request for what was missing. For people who may also approve, it says "Adjust". */
function toAsk({ at, may, texts }: Visit, event: NamedEntry): Html | undefined {
  if (event.agent_name === null || !may("request_delegation") || !isAskable(event)) return undefined;
  const words = texts.history.event;
  const text = may("approve_delegation_request") ? words.adjust : words.askForMissing;
  return html`<p class="actions"><a class="button" href=${at(`/agents/${event.agent_id}/ask`, { denied: event.event_id })}>${text}</a></p>`;
}

import type { RequestAnswer } from "../../../delegations/answers.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import { facts } from "../../elements/facts.ts";
import { time } from "../../elements/time.ts";

/** Who asks: agent, platform and key, how, and since when; and who decided. */
export function asker(visit: Visit, request: RequestAnswer): Html {
  const { texts, at } = visit;
  const words = texts.request;
  const { agent, platform, publisher, declared_by } = request;
  return html`<section class="card"><h2>${words.who}</h2>${facts([
    [
      words.agent,
      html`<a href=${at(`/agents/${request.agent_id}`)}>${agent.name}</a> <span class="quiet mono">${request.agent_id}</span>`,
    ],
    [words.platform, html`<a href=${at(`/platforms/${platform.platform_id}`)}>${platform.name}</a>`],
    [
      words.publisher,
      publisher === null
        ? html`<span class="quiet">${words.unpublished}</span>`
        : words.published(publisher.name, publisher.domain),
    ],
    [
      words.key,
      html`<span class="mono">${agent.key_fingerprint}</span> <span class="quiet">${words.custody[agent.custody_mode]}</span>`,
    ],
    [words.how, how(visit, request)],
    declared_by !== null && [
      words.user,
      declared_by.requested_by ?? html`<span class="quiet">${words.userUnknown}</span>`,
    ],
    [words.asked, time(request.created_at)],
    request.status === "pending" && [words.waitsUntil, time(request.expires_at)],
    [words.ends, askedEnd(visit, request)],
    request.decided_at !== null && [
      words.decided,
      html`${time(request.decided_at)}${decidedBy(visit, request)}`,
    ],
    request.reason !== null && [words.denialReason, request.reason],
    request.cert_id !== null && [
      words.delegation,
      html`<a href=${at(`/delegations/${request.cert_id}`)}>${words.toDelegation}</a>`,
    ],
  ])}</section>`;
}

function how({ texts: { request: words } }: Visit, { declared_by, requested_by }: RequestAnswer): Piece {
  if (declared_by !== null) {
    const name = [declared_by.namespace, declared_by.name].filter((part) => part !== null).join("/");
    return words.byObject(name, declared_by.cluster_id);
  }
  return requested_by === null ? words.byUnknown : words.byPerson(requested_by);
}

function decidedBy({ texts: { request: words } }: Visit, request: RequestAnswer): Piece {
  const { decided_by, decided_in_cluster } = request;
  if (decided_by === null) return undefined;
  if (decided_in_cluster === null) return ` ${words.decidedHere(decided_by)}`;
  return ` ${words.decidedIn(decided_by, decided_in_cluster)}`;
}

/** When the delegation is asked to end. */
export function askedEnd({ texts }: Visit, request: RequestAnswer): Piece {
  return request.requested_expires_at !== null
    ? time(request.requested_expires_at)
    : texts.request.lasting(request.requested_expires_in);
}

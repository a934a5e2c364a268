import type { RequestAnswer } from "../../../delegations/delegation_answers.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { DeclaredFields } from "../../../input/declared_fields.ts";
import type { Visit } from "../../core/page.ts";
import { day, deadline, facts, time, withNames } from "../../elements/values.ts";

/**
 * Returns who asks and why, as the first thing on the page. Without a verified domain, a warning is in the
 * same place.
 */
export function introduction(
  { texts: { request: words, asking, connect } }: Visit,
  request: RequestAnswer,
): Html {
  const { publisher, platform, purpose } = request;
  return html`${
    publisher === null || publisher.domain === null
      ? html`<p class="unverified">${publisher === null ? withNames(words.unverified, platform.name) : withNames(connect.unproved, publisher.name, platform.name)}</p>`
      : html`<p>${words.product} <strong><bdi>${publisher.name}</bdi></strong> <span class="verified"><span aria-hidden="true">✓ </span>${publisher.domain}<span class="hidden-label"> ${words.isDomain}</span></span></p>`
  }
    ${
      purpose !== null &&
      html`<blockquote><p><q><bdi>${purpose}</bdi></q></p>
        <footer class="quiet">${request.refusal === null ? words.purposeOf(personOf(request)) : asking.purposeOf}</footer></blockquote>`
    }`;
}

/** Returns the person who asked, or the user whom the object names. Null if neither is known. */
function personOf({ requested_by, declared_by }: RequestAnswer): string | null {
  return requested_by ?? declared_by?.requested_by ?? null;
}

/** Returns which person asked and when, and when the request lapses. */
export function asking({ texts: { request: words }, now }: Visit, request: RequestAnswer): Html {
  const { created_at, expires_at } = request;
  const person = personOf(request);
  return html`<p class="quiet asked">${person === null ? words.askedOn : html`<bdi>${person}</bdi> ${words.personAsked}`} ${day(created_at)}. ${words.lapses} ${deadline(expires_at, now)}.</p>`;
}

/** Returns all that is known about who asked, and how. */
export function asker(visit: Visit, request: RequestAnswer): Html {
  const { texts, at } = visit;
  const words = texts.request;
  const { agent, platform, publisher, declared_by } = request;
  return html`<section class="card"><h2>${words.who}</h2>${facts([
    request.purpose !== null && [words.purpose, html`<q>${request.purpose}</q>`],
    [
      words.agent,
      html`<a href=${at(`/agents/${request.agent_id}`)}><bdi>${agent.name}</bdi></a> <span class="quiet mono">${request.agent_id}</span>`,
    ],
    [
      words.platform,
      html`<a href=${at(`/platforms/${platform.platform_id}`)}><bdi>${platform.name}</bdi></a>`,
    ],
    [
      words.publisher,
      publisher === null
        ? html`<span class="quiet">${words.unpublished}</span>`
        : publisher.domain === null
          ? withNames(texts.connect.runBy, publisher.name)
          : withNames(words.published, publisher.name, publisher.domain),
    ],
    [
      words.key,
      html`<span class="mono">${agent.key_fingerprint}</span> <span class="quiet">${words.custody[agent.custody_mode]}</span>`,
    ],
    [words.how, how(visit, request)],
    request.connected_by !== null && [words.connectedBy, html`<bdi>${request.connected_by}</bdi>`],
    ...(declared_by === null ? [] : declaredRows(visit, declared_by)),
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
    request.linked_cert_id !== null && [
      words.linked,
      html`<a href=${at(`/delegations/${request.linked_cert_id}`)}>${words.toLinked}</a>`,
    ],
  ])}</section>`;
}

function declaredRows({ texts: { request: words } }: Visit, declared: DeclaredFields): [string, Piece][] {
  const rows = {
    requested_by: [
      words.user,
      declared.requested_by ?? html`<span class="quiet">${words.userUnknown}</span>`,
    ],
  } satisfies Record<keyof DeclaredFields, [string, Piece]>;
  return Object.values(rows);
}

function how(
  { texts: { request: words, asking } }: Visit,
  { declared_by, requested_by, refusal }: RequestAnswer,
): Piece {
  if (refusal !== null) return asking.how;
  if (declared_by !== null) {
    const name = [declared_by.namespace, declared_by.name].filter((part) => part !== null).join("/");
    return words.byObject(name, declared_by.cluster_id);
  }
  return requested_by === null ? words.byKey : words.byPerson(requested_by);
}

function decidedBy({ texts: { request: words } }: Visit, request: RequestAnswer): Piece {
  const { decided_by, decided_in_cluster } = request;
  if (decided_by === null) return undefined;
  if (decided_in_cluster === null) return ` ${words.decidedHere(decided_by)}`;
  return ` ${words.decidedIn(decided_by, decided_in_cluster)}`;
}

/** Returns the requested expiry of the delegation. */
export function askedEnd({ texts }: Visit, request: RequestAnswer): Piece {
  return request.requested_expires_at !== null
    ? time(request.requested_expires_at)
    : texts.request.lasting(request.requested_expires_in);
}

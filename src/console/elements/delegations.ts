import { addSeconds, unixSeconds } from "../../clock.ts";
import type { CertificateAnswer } from "../../delegations/delegation_answers.ts";
import { type Html, html, type Piece } from "../../html/html.ts";
import type { Constraint } from "../../protocol/constraints/constraints.ts";
import type { Visit } from "../core/page.ts";
import type { Texts } from "../texts/texts.ts";
import { detailedLimitList } from "./limits.ts";
import { table } from "./listing.ts";
import { type ScopeWords, scopeList, scopesInWords } from "./scopes.ts";
import { badge, type Tone, time, withNames } from "./values.ts";

/** The state of a delegation. `ending` means active, but expiring within {@link SOON_SECONDS}. */
type DelegationState = "active" | "ending" | "expired" | "revoked";

const SOON_SECONDS = 7 * 24 * 60 * 60;

const TONES: Record<DelegationState, Tone> = {
  active: "good",
  ending: "warn",
  expired: "plain",
  revoked: "bad",
};

type Ending = Pick<CertificateAnswer, "status" | "expires_at">;

/** Returns the current state of a delegation. In its last second, it is still active. */
export function delegationState({ now }: Visit, { status, expires_at }: Ending): DelegationState {
  if (status === "revoked") return "revoked";
  if (expires_at === null) return "active";
  const left = unixSeconds(new Date(expires_at)) - unixSeconds(now);
  if (left < 0) return "expired";
  return left < SOON_SECONDS ? "ending" : "active";
}

/** Returns the time before which an active delegation must expire to count as `ending`. */
export function soon({ now }: Visit): Date {
  return addSeconds(now, SOON_SECONDS);
}

/** Returns the state of a delegation as a badge. */
export function stateBadge(visit: Visit, certificate: Ending): Html {
  const state = delegationState(visit, certificate);
  return badge(visit.texts.delegations.states[state], TONES[state]);
}

function endOf({ texts }: Visit, { expires_at }: Ending): Html {
  return expires_at === null
    ? html`<span class="quiet">${texts.delegations.forever}</span>`
    : time(expires_at);
}

/** Returns a table of delegations with their agents, scopes, states and expiry times. */
export function delegationTable(visit: Visit, items: readonly CertificateAnswer[], empty: Piece): Html {
  const words = visit.texts.delegations;
  return table({
    caption: words.title,
    columns: [
      { label: words.agent, cell: (certificate) => agentOf(visit, certificate) },
      {
        label: words.may,
        cell: ({ approved_scope, scope_descriptions }) => scopeList(approved_scope, scope_descriptions),
      },
      { label: words.state, cell: (certificate) => stateBadge(visit, certificate) },
      { label: words.ends, cell: (certificate) => endOf(visit, certificate) },
    ],
    items,
    empty,
  });
}

function agentOf({ at, texts }: Visit, { cert_id, agent, platform }: CertificateAnswer): Html {
  return html`<a href=${at(`/delegations/${cert_id}`)}><bdi>${agent.name}</bdi></a> <span class="quiet">${withNames(texts.delegations.of, platform.name)}</span>`;
}

type Lent = {
  agent: string;
  scopes: readonly string[];
  constraints: readonly unknown[];
  /** When the certificate expires. `null` means that it is valid until it is revoked. */
  expiresAt: string | null;
};

/** Returns a certificate's content as sentences. */
export function grant(
  texts: Texts,
  words: ScopeWords,
  { agent, scopes, constraints, expiresAt }: Lent,
): Html {
  const { request } = texts;
  return html`<div class="grant">
    <p><strong><bdi>${agent}</bdi></strong> ${withNames(request.may, words.platform)}</p>
    ${scopesInWords(texts, words, scopes)}
    ${constraints.length > 0 && html`<p>${request.onlyIf}</p>${detailedLimitList(texts, constraints as Constraint[])}`}
    <p>${expiresAt === null ? request.forever : html`${request.until} ${time(expiresAt)}.`}</p>
  </div>`;
}

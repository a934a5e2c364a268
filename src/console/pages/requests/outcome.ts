import { isDeepStrictEqual } from "node:util";
import type { CertificateAnswer, RequestAnswer } from "../../../delegations/answers.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Constraint } from "../../../protocol/constraints/constraints.ts";
import type { Visit } from "../../core/page.ts";
import { grant } from "../../elements/grant.ts";
import { limitList } from "../../elements/limits.ts";
import { type ScopeWords, scopesInWords } from "../../elements/scopes.ts";

/** A request that is decided, or was never; with the certificate that it led to. */
export type Decided = {
  request: RequestAnswer;
  words: ScopeWords;
  certificate: CertificateAnswer | undefined;
};

/** What was approved and what was held back; or what had been asked for. */
export function outcome(visit: Visit, { request, words, certificate }: Decided): Html {
  const { texts } = visit;
  if (certificate === undefined) {
    return html`<section class="card"><h2>${texts.request.askedFor}</h2>
      ${scopesInWords(texts, words, request.requested_scope)}
      ${request.constraints.length > 0 && html`<p>${texts.request.onlyIf}</p>${limitList(texts, request.constraints as Constraint[])}`}
    </section>`;
  }
  const constraints = certificate.cert_json.constraints as Constraint[];
  const { approved_scope: scopes, expires_at: expiresAt } = certificate;
  return html`<section class="card"><h2>${texts.request.lent}</h2>
      ${grant(texts, words, { agent: request.agent.name, scopes, constraints, expiresAt })}</section>
    ${heldBack(visit, { request, words, certificate })}`;
}

function heldBack({ texts }: Visit, { request, words, certificate }: Required<Decided>): Html | undefined {
  if (certificate === undefined) return undefined;
  const scopes = request.requested_scope.filter((scope) => !certificate.approved_scope.includes(scope));
  const added = (certificate.cert_json.constraints as Constraint[]).filter(
    (each) => !request.constraints.some((one) => isDeepStrictEqual(one, each)),
  );
  const isEarlier = endsEarlier(request, certificate);
  const isWhole = scopes.length === 0 && added.length === 0 && !isEarlier;
  return html`<section class="card"><h2>${texts.request.held}</h2>
    ${isWhole && html`<p class="quiet">${texts.request.heldNothing}</p>`}
    ${scopes.length > 0 && scopesInWords(texts, words, scopes)}
    ${isEarlier && html`<p>${texts.request.heldEnd}</p>`}
    ${added.length > 0 && html`<p>${texts.request.heldLimit}</p>${limitList(texts, added)}`}</section>`;
}

function endsEarlier(request: RequestAnswer, { issued_at, expires_at }: CertificateAnswer): boolean {
  if (expires_at === null) return false;
  const { requested_expires_at: at, requested_expires_in: inSeconds } = request;
  if (at !== null) return Date.parse(expires_at) < Math.floor(Date.parse(at) / 1000) * 1000;
  return inSeconds === null || Date.parse(expires_at) < Date.parse(issued_at) + inSeconds * 1000;
}

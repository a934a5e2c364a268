import type { ChainAnswer } from "../../../delegations/certificates/certificate_chain.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import { badge } from "../../elements/badge.ts";
import { time } from "../../elements/time.ts";

type Step = { title: string; id: string; checks: Piece[]; fingerprint?: string };

/** From the root identity over the certificate to the agent's key, each with what was found of it. */
export function chain(visit: Visit, found: ChainAnswer, isRevoked: boolean): Html {
  const words = visit.texts.delegation;
  const { issuer, signature, agent } = found;
  const steps: Step[] = [
    {
      title: words.root,
      id: issuer.human_id,
      checks: [
        check(issuer.is_root_of_account, words.rootGood, words.rootBad),
        !issuer.is_id_of_key && badge(words.idBad, "bad"),
      ],
      fingerprint: issuer.key_fingerprint,
    },
    {
      title: words.certificate,
      id: found.cert_id,
      checks: [check(signature.holds, words.signatureGood, words.signatureBad(signature.failed ?? ""))],
    },
    {
      title: words.key,
      id: agent.agent_id,
      checks: [
        check(agent.is_key_of_agent, words.keyGood, words.keyBad),
        !agent.is_id_of_key && badge(words.idBad, "bad"),
        agent.disabled_at !== null && html`<p>${words.disabled} ${time(agent.disabled_at)}.</p>`,
      ],
      fingerprint: agent.key_fingerprint,
    },
  ];
  return html`<section class="card"><h2>${words.chain}</h2><p class="quiet">${words.chainLead}</p>
    <ol class="chain">${steps.map((step) => shown(visit, step))}</ol>
    ${revocationList(visit, found, isRevoked)}</section>`;
}

function shown({ texts }: Visit, { title, id, checks, fingerprint }: Step): Html {
  return html`<li><h3>${title}</h3>
    <p>${checks.map((each) => html`${each} `)}</p>
    <p class="mono quiet">${id}</p>
    ${fingerprint !== undefined && html`<p class="quiet">${texts.delegation.fingerprint} <span class="mono">${fingerprint}</span></p>`}
  </li>`;
}

function check(isGood: boolean, good: string, bad: string): Html {
  return isGood ? badge(good, "good") : badge(bad, "bad");
}

function revocationList(visit: Visit, { revocation_list }: ChainAnswer, isRevoked: boolean): Html {
  const words = visit.texts.delegation;
  const { human_id, listed } = revocation_list;
  const { pathname } = new URL(visit.outside.url(`/v1/service/revocations/${human_id}`));
  return html`<h3>${words.list}</h3>
    <p>${listed ? words.listed : isRevoked ? words.listEnded : words.unlisted} <a href=${pathname}>${words.toList}</a></p>`;
}

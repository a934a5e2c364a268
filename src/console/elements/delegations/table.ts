import type { CertificateAnswer } from "../../../delegations/answers.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import { table } from "../listing.ts";
import { scopeList } from "../scopes.ts";
import { endOf, stateBadge } from "./state.ts";

/** Delegations with whom they are to, what they lend and how they stand. */
export function delegationTable(visit: Visit, items: readonly CertificateAnswer[], empty: Piece): Html {
  const words = visit.texts.delegations;
  return table({
    caption: words.title,
    columns: [
      { label: words.agent, cell: (certificate) => agentOf(visit, certificate) },
      { label: words.may, cell: ({ approved_scope }) => scopeList(approved_scope) },
      { label: words.state, cell: (certificate) => stateBadge(visit, certificate) },
      { label: words.ends, cell: (certificate) => endOf(visit, certificate) },
    ],
    items,
    empty,
  });
}

function agentOf({ at, texts }: Visit, { cert_id, agent, platform }: CertificateAnswer): Html {
  return html`<a href=${at(`/delegations/${cert_id}`)}>${agent.name}</a> <span class="quiet">${texts.delegations.of(platform.name)}</span>`;
}
